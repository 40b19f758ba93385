//! A scratch store over a real one: what an import would do, without doing it.
//!
//! Owns copying what is stored about the phones of a part into the scratch store just before the part is
//! committed there. The import itself does not know. Invariant: the real store is only read.

use std::path::Path;

use crate::batch::Wave;
use crate::job::ListId;
use crate::store::commit::PartWrite;
use crate::store::members::{MEMBERS_OF_POSTGRES, MEMBERS_OF_SQLITE, MemberRow};
use crate::store::session::Session;
use crate::store::sqlite_part::json_array;
use crate::store::{Access, Member, Options, Pool, Store, StoreError, Target, sqlite};

/// The list of a real store that a scratch store stands over.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    store: Box<Store>,
    list: ListId,
}

/// A job that is not there any more was finished long ago and is forgotten.
const NAMES_SQLITE: &str =
    "SELECT r.phone, r.name, CASE WHEN j.state = 'done' OR (r.job_id IS NOT NULL AND j.id IS NULL) THEN 1 ELSE 0 END
    FROM json_each($2) p CROSS JOIN recipients r ON r.list_id = $1 AND r.phone = p.value
    LEFT JOIN jobs j ON j.id = r.job_id
    WHERE r.name IS NOT NULL";
const NAMES_POSTGRES: &str = "SELECT r.phone, r.name,
      CASE WHEN j.state = 'done' OR (r.job_id IS NOT NULL AND j.id IS NULL) THEN 1::bigint ELSE 0::bigint END
    FROM recipients r LEFT JOIN jobs j ON j.id = r.job_id
    WHERE r.list_id = $1 AND r.phone = ANY($2) AND r.name IS NOT NULL";

/// Each element of $3 is `[phone, name, status, attributes, version]`; $1 is the scratch job.
const SEED: &str = "INSERT INTO recipients
      (list_id, created_at, updated_at, phone, name, status, attributes, source_version)
    SELECT (SELECT list_id FROM jobs WHERE id = $1), $2, $2,
           j.value ->> 0, j.value ->> 1, j.value ->> 2, j.value ->> 3, j.value ->> 4
    FROM json_each($3) j
    WHERE true
    ON CONFLICT (list_id, phone) DO NOTHING";

impl Store {
    /// A scratch store in `folder`, over `list` of `origin` where there is one.
    ///
    /// An import into any list of it ends with the counts that the same import into `list` would have now.
    pub async fn scratch(folder: &Path, origin: Option<(&Self, ListId)>) -> Result<Self, StoreError> {
        let target = Target::sqlite(&folder.join("check.db"));
        let mut store = Self::open(&target, Access::Create, &Options::default()).await?;
        store.scratch = true;
        store.origin = origin.map(|(store, list)| Origin { store: Box::new(store.clone()), list });
        Ok(store)
    }

    /// Whether what is written here comes to nothing.
    pub(crate) fn is_scratch(&self) -> bool {
        self.scratch
    }

    /// The store and the list that tell what is known already: the real ones under a scratch store.
    pub(crate) fn judging(&self, list: ListId) -> (&Self, ListId) {
        self.origin.as_ref().map_or((self, list), |origin| (&*origin.store, origin.list))
    }

    /// The names stored for these phones: phone, name, and 1 where an import that is done wrote it last.
    pub(crate) async fn known_names(
        &self,
        list: ListId,
        phones: &[&str],
    ) -> Result<Vec<(String, String, i64)>, StoreError> {
        Ok(match &self.pool {
            Pool::Sqlite(db) => {
                let phones = json_array(phones.iter().copied());
                sqlx::query_as(NAMES_SQLITE).bind(list.0).bind(phones).fetch_all(db).await?
            }
            Pool::Postgres(db) => sqlx::query_as(NAMES_POSTGRES).bind(list.0).bind(phones).fetch_all(db).await?,
        })
    }

    /// What is stored about these phones; those without a recipient are left out.
    pub async fn members_of(&self, list: ListId, phones: &[&str]) -> Result<Vec<Member>, StoreError> {
        let rows: Vec<MemberRow> = match &self.pool {
            Pool::Sqlite(db) => {
                let phones = json_array(phones.iter().copied());
                sqlx::query_as(MEMBERS_OF_SQLITE).bind(list.0).bind(phones).fetch_all(db).await?
            }
            Pool::Postgres(db) => sqlx::query_as(MEMBERS_OF_POSTGRES).bind(list.0).bind(phones).fetch_all(db).await?,
        };
        Ok(rows.into_iter().map(Member::from).collect())
    }
}

impl Session {
    /// Copies what the real store holds about a part's phones, where this session works on a scratch store.
    pub(crate) async fn seed(&self, part: &PartWrite) -> Result<(), StoreError> {
        let (Some(origin), Pool::Sqlite(db)) = (&self.origin, &self.pool) else { return Ok(()) };
        // Later waves repeat phones of the first.
        let Some(phones) = part.waves.first().map(phones_of) else { return Ok(()) };
        let members = origin.store.members_of(origin.list, &phones).await?;
        if members.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = members
            .iter()
            .map(|m| {
                // The document is kept as text, as the table holds it.
                let attributes = serde_json::to_string(&m.attributes).unwrap_or_else(|_| "{}".to_owned());
                serde_json::json!([m.phone, m.name, m.status.as_str(), attributes, m.source_version])
            })
            .collect();
        let now: i64 = sqlx::query_scalar(sqlite::NOW).fetch_one(db).await?;
        let rows = serde_json::Value::from(rows).to_string();
        sqlx::query(SEED).bind(self.lease.job.0).bind(now).bind(rows).execute(db).await?;
        Ok(())
    }
}

fn phones_of(wave: &Wave) -> Vec<&str> {
    wave.iter().map(|folded| folded.recipient.phone.as_str()).collect()
}
