//! Alerts by e-mail.
//!
//! Owns the mail's shape. The protocol is lettre's. Invariant: no message shows the mail server's password.

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde_json::Value;

use crate::alert::Alert;
use crate::claim::SINK_DEADLINE;
use crate::fault::{Code, Fault};

/// What somebody wrote down.
pub(crate) struct EmailSettings<'a> {
    /// `smtps://USER:PASSWORD@HOST`, `smtp://HOST:587?tls=required` or, inside a machine, `smtp://localhost`.
    pub(crate) smtp: Option<&'a str>,
    /// From whom.
    pub(crate) from: Option<&'a str>,
    /// To whom.
    pub(crate) to: &'a [String],
}

/// A mail server and the people behind it.
#[derive(Clone)]
pub(crate) struct Email {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    host: String,
    from: Mailbox,
    to: Vec<Mailbox>,
}

impl std::fmt::Debug for Email {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Email").field(&self.host).finish()
    }
}

impl Email {
    /// `None` where nothing is said about mails.
    pub(crate) fn parse(settings: &EmailSettings<'_>) -> Result<Option<Self>, Fault> {
        let wrong = |what: &str, hint: &'static str| {
            Fault::new(Code::Config, format!("the e-mails of alerts {what}")).hint(hint)
        };
        let (smtp, from) = match (settings.smtp, settings.from, settings.to) {
            (None, None, []) => return Ok(None),
            (Some(smtp), Some(from), [_, ..]) => (smtp, from),
            _ => return Err(wrong("need smtp, from and to", "complete them under [alerts.email]")),
        };
        let mailbox = |text: &str| {
            let address = text.parse::<Mailbox>();
            address.map_err(|_| wrong(&format!("go to or from '{text}', which is no address"), "write NAME@HOST"))
        };
        let unreadable = || wrong("have an smtp that is no URL", "write for example smtps://USER:PASSWORD@HOST");
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(smtp.trim()).map_err(|_| unreadable())?;
        Ok(Some(Self {
            transport: builder.timeout(Some(SINK_DEADLINE)).build(),
            host: host_of(smtp).ok_or_else(unreadable)?,
            from: mailbox(from)?,
            to: settings.to.iter().map(|to| mailbox(to)).collect::<Result<_, _>>()?,
        }))
    }

    /// The mail server.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Sends the alert as one mail to all; why it was not taken.
    pub(crate) async fn send(&self, alert: &Alert, body: &Value) -> Result<(), String> {
        let subject: String = format!("[enlist {}] {}", alert.rule.severity, alert.message).chars().take(150).collect();
        let mut builder = Message::builder().from(self.from.clone()).subject(subject);
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        let text = format!(
            "{}\n\nkey       {}\nseverity  {}\nat        {}\nhost      {}\ndetails   {}\n",
            alert.message,
            alert.key,
            alert.rule.severity,
            body["at"].as_str().unwrap_or_default(),
            body["host"].as_str().unwrap_or_default(),
            alert.details
        );
        let mail = builder.header(ContentType::TEXT_PLAIN).body(text).map_err(|error| error.to_string())?;
        match self.transport.send(mail).await {
            Ok(answer) if answer.is_positive() => Ok(()),
            Ok(answer) => Err(format!("it answered {}", answer.code())),
            Err(error) => Err(match error.status() {
                Some(code) => format!("it answered {code}"),
                None if error.is_timeout() => "it did not answer in time".to_owned(),
                None if error.is_tls() => "TLS with it failed".to_owned(),
                None => "it cannot be reached, or does not speak SMTP".to_owned(),
            }),
        }
    }
}

/// The host of a URL, without user and password.
fn host_of(url: &str) -> Option<String> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?']).next()?;
    let place = authority.rsplit('@').next()?;
    let host = if place.starts_with('[') { place.split_inclusive(']').next()? } else { place.split(':').next()? };
    (!host.is_empty()).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_need_server_sender_and_receivers_and_show_no_password() {
        let to = ["Nöbetçi <ops@example.com>".to_owned()];
        let parse = |smtp, from, to| Email::parse(&EmailSettings { smtp, from, to });
        let email = parse(Some("smtps://u:geheim@mail.example.com:465"), Some("enlist@example.com"), &to).unwrap();
        assert_eq!(format!("{:?}", email.unwrap()), "Email(\"mail.example.com\")");
        assert!(parse(None, None, &[]).unwrap().is_none());
        for (smtp, from) in [(None, Some("a@b")), (Some("geheim"), Some("a@b")), (Some("smtp://geheim@h"), Some("a b"))]
        {
            let fault = parse(smtp, from, &to).unwrap_err();
            assert!(fault.code == Code::Config && !fault.message.contains("geheim"), "{}", fault.message);
        }
        assert_eq!(host_of("smtp://u:p@[::1]:25/x"), Some("[::1]".to_owned()));
    }
}
