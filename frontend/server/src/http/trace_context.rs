//! The header `traceparent` (W3C Trace Context 3.2): it names the trace to which a request belongs, for the log.

use hyper::header::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// `00-` 32 digits `-` 16 digits `-` 2 digits.
const BYTES: usize = 55;

/// The ids of a trace and of the caller's span in it.
#[derive(Debug, PartialEq, Eq)]
pub struct TraceContext(String);

impl TraceContext {
    /// Reads the header; `None` if it is missing, repeated or invalid.
    pub fn of(headers: &HeaderMap) -> Option<TraceContext> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let text = values.next()?.to_str().ok()?;
        if values.next().is_some() {
            return None;
        }
        let is_hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let known = text.get(..BYTES)?;
        // A later version may have more after another dash.
        let fits = text.len() == BYTES || (!text.starts_with("00") && text.as_bytes()[BYTES] == b'-');
        let mut parts = known.split('-');
        let [version, trace, parent, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let valid = is_hex(version, 2)
            && version != "ff"
            && is_hex(trace, 32)
            && is_hex(parent, 16)
            && is_hex(flags, 2);
        let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
        (fits && valid && !zero(trace) && !zero(parent)).then(|| TraceContext(known.to_owned()))
    }

    /// The id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.0[3..35]
    }

    /// The id of the caller's span: 16 hexadecimal digits.
    pub fn parent_id(&self) -> &str {
        &self.0[36..52]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_headers_are_read() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRACEPARENT, value.parse().unwrap());
            }
            TraceContext::of(&headers)
        };
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read_good = read(&[good]).unwrap();
        assert_eq!(read_good.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(read_good.parent_id(), "b7ad6b7169203331");
        assert!(read(&[&good.replacen("00", "01", 1)]).is_some());
        assert!(read(&[&format!("{}-more", good.replacen("00", "cc", 1))]).is_some());
        for bad in [
            &[][..],
            &[good, good],
            &[""],
            &["00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"],
            &["00-00000000000000000000000000000000-b7ad6b7169203331-01"],
            &["00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"],
            &["ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
            &["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"],
            &["00-0af7651916cd43dd8448eb211c80319cb7ad6b7169203331-01----"],
            &["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"],
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
