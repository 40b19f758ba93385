//! Receivers besides the webhook: e-mail and a command, and who may define one.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::cli::{Home, Output, SECRET};
use crate::common::wait::wait_for;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn alert(home: &Home, lines: &str) -> Output {
    let path = home.write("config/enlist/enlist.toml", lines);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    home.bare().args(["alert", "disk-full", "--message", "disk 'ş' $(full)", "--json"]).run()
}

/// A mail server that speaks as much SMTP as a client needs; what it was given.
fn mail_server() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mails = Arc::new(Mutex::new(Vec::new()));
    let sink = mails.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut stream = stream;
            let mut mail = String::new();
            let _ = stream.write_all(b"220 mail\r\n");
            let mut in_data = false;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    break;
                }
                mail += &line;
                let answer = match line.trim_end() {
                    "." if in_data => {
                        in_data = false;
                        sink.lock().unwrap().push(std::mem::take(&mut mail));
                        "250 taken"
                    }
                    _ if in_data => continue,
                    "DATA" => {
                        in_data = true;
                        "354 go on"
                    }
                    "QUIT" => "221 bye",
                    _ => "250 mail",
                };
                let _ = stream.write_all(format!("{answer}\r\n").as_bytes());
            }
        }
    });
    (address, mails)
}

#[test]
fn an_alert_goes_out_as_one_mail_to_all() {
    let (home, (address, mails)) = (Home::new(), mail_server());
    let text = format!(
        "[alerts.email]\nsmtp = 'smtp://{address}'\nfrom = 'enlist@example.com'\nto = ['a@example.com', 'b@example.com']\n"
    );
    alert(&home, &text).expect(0);
    let mail = wait_for("the mail", PATIENCE, || mails.lock().unwrap().first().cloned());
    for part in ["RCPT TO:<a@example.com>", "RCPT TO:<b@example.com>", "Subject: ", "disk-full", "severity"] {
        assert!(mail.contains(part), "{part}: {mail}");
    }
    assert_eq!(mails.lock().unwrap().len(), 1);
}

#[test]
fn a_command_gets_the_alert_in_its_environment_and_on_its_standard_input() {
    let home = Home::new();
    let script = "cat > got.json; printf '%s|%s|%s' \"$ENLIST_ALERT_KEY\" \"$ENLIST_ALERT_SEVERITY\" \"$ENLIST_ALERT_MESSAGE\" > got.env";
    let text = format!("[alerts]\ncommand = ['sh', '-c', '''{script}''']\n");
    alert(&home, &text).expect(0);
    assert_eq!(String::from_utf8_lossy(&home.read("got.env")), "disk-full|p1|disk 'ş' $(full)");
    let json: serde_json::Value = serde_json::from_slice(&home.read("got.json")).unwrap();
    assert_eq!((&json["key"], &json["message"]), (&"disk-full".into(), &"disk 'ş' $(full)".into()));
    let failed = alert(&home, "[alerts]\ncommand = ['sh', '-c', 'exit 3']\n");
    assert_eq!((failed.code, failed.error().as_deref()), (75, Some("alert_undelivered")), "{}", failed.told());
}

#[test]
fn a_file_that_others_may_write_defines_no_command() {
    let home = Home::new();
    alert(&home, "[alerts]\ncommand = ['true']\n").expect(0);
    let path = home.path().join("config/enlist/enlist.toml");
    for mode in [0o620, 0o602] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = home.bare().args(["alert", "k", "--message", "m", "--json"]).run();
        refused.refused(2, "config");
        assert!(refused.stderr.contains("others may write"), "{}", refused.told());
    }
}

#[test]
fn no_output_shows_a_secret_of_a_receiver() {
    let home = Home::new();
    let text = format!(
        "claims_url = 'redis://:{SECRET}@127.0.0.1:1/'\n[alerts]\nwebhook = 'http://127.0.0.1:1/{SECRET}'\n\
         [alerts.email]\nsmtp = 'smtp://u:{SECRET}@127.0.0.1:1'\nfrom = 'a@example.com'\nto = ['b@example.com']\n"
    );
    home.write("config/enlist/enlist.toml", &text);
    for line in [&["alert", "k", "--message", "m", "-vv"][..], &["alert", "k", "--message", "m", "--json"], &["config"]]
    {
        let output = home.bare().args(line).run();
        assert!(!output.told().contains(SECRET), "{}", output.told());
        assert!(output.told().contains("127.0.0.1"), "{}", output.told());
    }
}

#[test]
fn one_receiver_that_takes_it_is_enough_and_the_others_are_named() {
    let home = Home::new();
    let output = alert(&home, "[alerts]\nwebhook = 'http://127.0.0.1:1/x'\ncommand = ['true']\n").expect(0);
    assert_eq!(output.json()["rung"], true);
    assert!(output.stderr.contains("webhook at 127.0.0.1: "), "{}", output.told());
}
