//! The signature that tells a receiver who called.
//!
//! Owns the secret and the header's form. It does not know what is signed. Invariant: a secret is never shown.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What only the receiver and this program know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret as it was written, without the line end of its file; nothing is no secret.
    pub fn new(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        (!text.is_empty()).then(|| Self(text.to_vec()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// `sha256=` and the HMAC-SHA256 (RFC 2104) of `body` in lower-case hexadecimal.
pub fn sign(secret: &Secret, body: &[u8]) -> String {
    // Cannot fail: HMAC takes keys of any length.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("any length is good");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_rfc_4231() {
        // RFC 4231, 4.3: test case 2.
        let secret = Secret::new(b"Jefe\n").unwrap();
        assert_eq!(
            sign(&secret, b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(format!("{secret:?}"), "(secret)");
        assert_eq!(Secret::new(b" \n"), None);
    }
}
