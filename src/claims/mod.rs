//! Claims to ring an alert or to run a command in a window, in Redis.
//!
//! Owns the scripts and the one connection, which many questions share. It does not know what is done under a
//! claim, nor the deadline: whoever asks drops the question. Invariant: a key is won by one process, by Redis's
//! clock; its value is `claimed NAME` or `sent NAME`, and only who finds its own name there changes it. After
//! a failover that lost the key two may win: claims in Redis are for what may happen twice then.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, FromRedisValue, IntoConnectionInfo};
use tokio::sync::Mutex;

use crate::claim::{CLAIM_DEADLINE, CLAIM_LEASE, ClaimKey, Claiming, Held, Phase, Term};
use crate::fault::{Code, Fault};
use crate::owner::Owner;

/// Wins the key, or counts the hit and says who has it. KEYS: the key, its counter of suppressed hits. ARGV: the
/// value, for how many milliseconds, and whether that is up to the end of an aligned window.
const CLAIM: &str = "
local life = tonumber(ARGV[2])
if ARGV[3] == 'aligned' then
  local time = redis.call('TIME')
  life = life - (time[1] * 1000 + math.floor(time[2] / 1000)) % life
end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', life) then return {'', 0} end
local held = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], left)
return {held, left}";

/// ARGV: the value that must be there, the next one, for how many milliseconds.
const MARK_SENT: &str = "
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1";

/// ARGV: the two values that may go.
const RELEASE: &str = "
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] or held == ARGV[2] then return redis.call('DEL', KEYS[1]) end
return 0";

/// Redis as a claim store. It is connected to when it is first asked, and again after the connection broke.
pub struct RedisClaims {
    client: Client,
    place: String,
    connected: Mutex<Option<MultiplexedConnection>>,
}

impl std::fmt::Debug for RedisClaims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RedisClaims").field(&self.place).finish()
    }
}

/// Why Redis gave no answer, without a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisError(String);

impl std::fmt::Display for RedisError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        let what = error.code().map_or_else(|| error.category().to_owned(), str::to_owned);
        Self(format!("Redis does not answer the question ({what})"))
    }
}

impl RedisClaims {
    /// Reads `redis://…`, `rediss://…` (TLS) or `unix:…`; nothing is connected yet.
    ///
    /// # Errors
    /// `config`; the message quotes no more than the scheme, because the rest may hold a password.
    pub fn parse(url: &str) -> Result<Self, Fault> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let wrong = || {
            Fault::new(Code::Config, format!("the claims URL '{scheme}://…' is not understood"))
                .hint("write redis://HOST:PORT, rediss://HOST:PORT for TLS, or leave it out to use the database")
        };
        let info: ConnectionInfo = url.trim().into_connection_info().map_err(|_| wrong())?;
        let place = format!("Redis {}", info.addr());
        let client = Client::open(info).map_err(|_| wrong())?;
        Ok(Self { client, place, connected: Mutex::new(None) })
    }

    /// Where it is, without a password.
    pub fn place(&self) -> String {
        self.place.clone()
    }

    /// Claims `key` for `owner`, whose name must be new. Never `Unavailable`: that is the error.
    pub async fn claim(&self, key: &ClaimKey, term: Term, owner: &Owner) -> Result<Claiming, RedisError> {
        let (phase, life, end) = match term {
            Term::Ring { .. } => (Phase::Claimed, CLAIM_LEASE, "from now"),
            Term::Window(window) => (Phase::Sent, window, "aligned"),
        };
        let mine = value(phase, owner);
        let mut call = script(CLAIM, &[name(key), counter(key)]);
        call.arg(&mine).arg(millis(life)).arg(end);
        let (held, left): (String, i64) = self.ask(&call).await?;
        // The own name: the question was asked again after its answer had been lost.
        if held.is_empty() || held == mine {
            return Ok(Claiming::New);
        }
        let (phase, by) = held.split_once(' ').unwrap_or_default();
        let phase = Phase::from_word(phase).ok_or_else(|| RedisError("Redis holds something else there".to_owned()))?;
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        Ok(Claiming::Held(Held { by: Owner::from_text(by), phase, left }))
    }

    /// The alert of a claim was sent: the window begins now. `false`: the claim had ended or passed to another.
    pub async fn mark_sent(&self, key: &ClaimKey, term: Term, owner: &Owner) -> Result<bool, RedisError> {
        let mut call = script(MARK_SENT, &[name(key)]);
        call.arg(value(Phase::Claimed, owner)).arg(value(Phase::Sent, owner)).arg(millis(term.window()));
        let marked: i64 = self.ask(&call).await?;
        Ok(marked == 1)
    }

    /// Nothing came of a claim: the key is free again.
    pub async fn release(&self, key: &ClaimKey, owner: &Owner) -> Result<(), RedisError> {
        let mut call = script(RELEASE, &[name(key)]);
        call.arg(value(Phase::Claimed, owner)).arg(value(Phase::Sent, owner));
        let _: i64 = self.ask(&call).await?;
        Ok(())
    }

    /// Something was sent without a claim: from now on its window counts for everybody.
    pub async fn record(&self, key: &ClaimKey, term: Term, owner: &Owner) -> Result<(), RedisError> {
        let mut set = redis::cmd("SET");
        set.arg(name(key)).arg(value(Phase::Sent, owner)).arg("PX").arg(millis(term.window()));
        self.ask(&set).await
    }

    /// Asks on the shared connection; one that turns out to be broken is replaced once.
    async fn ask<T: FromRedisValue>(&self, question: &Cmd) -> Result<T, RedisError> {
        let mut connected = self.connected.lock().await;
        let kept = connected.take();
        let had_one = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let answer = match question.query_async(&mut connection).await {
            Err(error) if had_one && (error.is_io_error() || error.is_connection_dropped()) => {
                connection = self.connect().await?;
                question.query_async(&mut connection).await?
            }
            answer => answer?,
        };
        *connected = Some(connection);
        Ok(answer)
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CLAIM_DEADLINE))
            .set_response_timeout(Some(CLAIM_DEADLINE));
        Ok(self.client.get_multiplexed_async_connection_with_config(&config).await?)
    }
}

/// A script with its keys; its arguments are to follow.
fn script(text: &str, keys: &[String]) -> Cmd {
    let mut call = redis::cmd("EVAL");
    call.arg(text).arg(keys.len()).arg(keys);
    call
}

/// The braces put a key and its counter on one node of a cluster.
fn name(key: &ClaimKey) -> String {
    format!("enlist:{{{}}}", key.as_str())
}

fn counter(key: &ClaimKey) -> String {
    format!("{}:suppressed", name(key))
}

fn value(phase: Phase, owner: &Owner) -> String {
    format!("{} {}", phase.as_str(), owner.to_text())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_redis_and_no_message_or_debug_shows_its_password() {
        let claims = RedisClaims::parse("redis://:geheim@127.0.0.1:6380/2").unwrap();
        assert_eq!(claims.place(), "Redis 127.0.0.1:6380");
        assert!(!format!("{claims:?}").contains("geheim"));
        for wrong in ["http://:geheim@a", "geheim", "redis://:geheim@:x/"] {
            let fault = RedisClaims::parse(wrong).map(drop).unwrap_err();
            assert_eq!(fault.code, Code::Config);
            assert!(!fault.message.contains("geheim"), "{}", fault.message);
        }
    }
}
