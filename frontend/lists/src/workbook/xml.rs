//! XML of spreadsheets, event by event. An event takes a bounded amount of memory, and so do the names of open elements, which the
//! parser keeps.

use super::archive::broken;
use crate::bounded::Bounded;
use crate::machine::{is_of_machine, of_machine};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use std::io::{BufReader, Error, ErrorKind, Read, Result};

/// Most elements that are open at once.
const DEPTH_MAX: usize = 256;
/// Longest name of an element, and of what a spreadsheet names (sheets, styles, parts), in bytes.
const NAME_BYTES_MAX: usize = 512;

/// A reader of events. Empty elements have a start and an end.
pub(super) struct Xml {
    reader: Reader<BufReader<Bounded<Box<dyn Read>>>>,
    buffer: Vec<u8>,
    /// Number of open elements.
    depth: usize,
}

/// An event that spreadsheets use.
#[derive(Debug)]
pub(super) enum XmlEvent<'a> {
    Start(BytesStart<'a>),
    /// The end of an element, with its local name.
    End(String),
    Text(String),
    /// The end of the document.
    Done,
    /// Anything else.
    Other,
}

impl Xml {
    /// A reader of a part of a spreadsheet.
    pub fn new(input: Box<dyn Read>) -> Xml {
        let mut reader = Reader::from_reader(BufReader::new(Bounded::new(input)));
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_end_names = false;
        Xml { reader, buffer: Vec::new(), depth: 0 }
    }

    /// The next event.
    ///
    /// # Errors
    /// It is not XML, an event is too long, or elements are too deep.
    pub fn next(&mut self) -> Result<XmlEvent<'_>> {
        self.buffer.clear();
        self.reader.get_mut().get_mut().refill();
        let event = self.reader.read_event_into(&mut self.buffer);
        Ok(match event.map_err(|error| unreadable(&error))? {
            Event::Start(start) => {
                self.depth += 1;
                if self.depth > DEPTH_MAX || start.name().as_ref().len() > NAME_BYTES_MAX {
                    return Err(broken("its elements are too deep, or have names that are too long"));
                }
                XmlEvent::Start(start)
            }
            Event::End(end) => {
                self.depth = self.depth.saturating_sub(1);
                XmlEvent::End(end.local_name().as_ref().to_owned())
            }
            Event::Text(text) => XmlEvent::Text(text.xml10_content().into_owned()),
            Event::CData(text) => XmlEvent::Text(text.xml10_content().into_owned()),
            Event::GeneralRef(reference) => {
                let character = match reference.as_ref() {
                    "amp" => Some('&'),
                    "lt" => Some('<'),
                    "gt" => Some('>'),
                    "quot" => Some('"'),
                    "apos" => Some('\''),
                    _ => reference.resolve_char_ref().ok().flatten(),
                };
                XmlEvent::Text(character.ok_or_else(|| broken("it has an unknown entity"))?.to_string())
            }
            Event::Eof => XmlEvent::Done,
            _ => XmlEvent::Other,
        })
    }
}

/// The error of a part: our own ones say what is wrong.
fn unreadable(error: &quick_xml::Error) -> Error {
    match error {
        quick_xml::Error::Io(error) if is_of_machine(error) => {
            of_machine(Error::new(error.kind(), error.to_string()))
        }
        quick_xml::Error::Io(error) if error.kind() == ErrorKind::Other => broken(&error.to_string()),
        _ => broken("a part of it is damaged or too long"),
    }
}

/// The value of an attribute by its local name.
pub(super) fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = start.attributes();
    // The check for duplicates compares each attribute with each other one.
    let mut attributes = attributes.with_checks(false).flatten();
    let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(|value| value.into_owned())
}

/// The value of an attribute that is a name, which is kept.
///
/// # Errors
/// It is too long.
pub(super) fn name_in(start: &BytesStart<'_>, name: &str) -> Result<Option<String>> {
    let value = attribute(start, name);
    if value.as_ref().is_some_and(|value| value.len() > NAME_BYTES_MAX) {
        return Err(broken("it has a name that is too long"));
    }
    // A value can have more room than it needs.
    Ok(value.map(|value| value.into_boxed_str().into_string()))
}
