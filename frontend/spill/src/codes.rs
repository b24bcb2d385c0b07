//! A few bytes per row of a list: the result of its check, once it is known.

use super::{PAYLOAD, Payload, State};
use crate::SpillError;
use std::collections::VecDeque;

/// An array of values of `W` bytes, initially 0, in pages of one block each. The pages that were used last are in memory.
pub struct Codes<const W: usize> {
    pages: Vec<Page>,
    /// The pages in memory, the next to leave first.
    resident: VecDeque<u32>,
    resident_max: usize,
}

#[derive(Default)]
struct Page {
    block: Option<u32>,
    data: Option<Box<Payload>>,
    changed: bool,
    /// Whether it was used since it was last skipped.
    used: bool,
}

/// Minimum number of pages in memory: those of the writer, the reader and the answers.
const RESIDENT_MIN: usize = 16;

impl<const W: usize> Codes<W> {
    /// Number of values in a page.
    const IN_PAGE: u64 = (PAYLOAD / W) as u64;

    /// Codes with this number of bytes in memory.
    pub fn new(memory: usize) -> Codes<W> {
        let resident_max = (memory / PAYLOAD).max(RESIDENT_MIN);
        Codes { pages: Vec::new(), resident: VecDeque::new(), resident_max }
    }

    /// The value of a row.
    ///
    /// # Errors
    /// The state fails.
    pub fn get(&mut self, state: &mut State, row: u64) -> Result<[u8; W], SpillError> {
        let (page, at) = Self::place(row)?;
        let mut value = [0; W];
        match self.pages.get(page) {
            Some(Page { data: None, block: None, .. }) | None => {}
            Some(_) => value.copy_from_slice(&self.page(state, page)?[at..at + W]),
        }
        Ok(value)
    }

    /// Sets the value of a row.
    ///
    /// # Errors
    /// The state fails.
    pub fn set(&mut self, state: &mut State, row: u64, value: [u8; W]) -> Result<(), SpillError> {
        let (page, at) = Self::place(row)?;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, Page::default);
        }
        self.page(state, page)?[at..at + W].copy_from_slice(&value);
        self.pages[page].changed = true;
        Ok(())
    }

    /// The page of a row, and the position of its value.
    fn place(row: u64) -> Result<(usize, usize), SpillError> {
        let page =
            u32::try_from(row / Self::IN_PAGE).map_err(|_| SpillError::failed("the list is too long"))?;
        Ok((page as usize, (row % Self::IN_PAGE) as usize * W))
    }

    /// Loads a page into memory.
    fn page(&mut self, state: &mut State, number: usize) -> Result<&mut Payload, SpillError> {
        if self.pages[number].data.is_none() {
            if self.resident.len() >= self.resident_max {
                self.make_room(state)?;
            }
            let mut data = Box::new([0; PAYLOAD]);
            if let Some(block) = self.pages[number].block {
                state.restore(block, &mut data)?;
            }
            self.pages[number].data = Some(data);
            self.resident.push_back(number as u32);
        }
        let page = &mut self.pages[number];
        page.used = true;
        page.data.as_deref_mut().ok_or_else(|| SpillError::failed("a page of verdicts is lost"))
    }

    /// Stores a page that was not used recently, and removes it from memory.
    fn make_room(&mut self, state: &mut State) -> Result<(), SpillError> {
        while let Some(number) = self.resident.pop_front() {
            let page = &mut self.pages[number as usize];
            if std::mem::take(&mut page.used) {
                self.resident.push_back(number);
                continue;
            }
            if let Some(data) = page.data.take()
                && std::mem::take(&mut page.changed)
            {
                match page.block {
                    Some(block) => state.overwrite(block, &data[..])?,
                    None => page.block = Some(state.store(&data[..])?),
                }
            }
            return Ok(());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::state;

    #[test]
    fn codes_stay_what_they_were_set_to() {
        check::<1>();
        check::<8>();
    }

    fn check<const W: usize>() {
        for memory in [0, 1 << 30] {
            let (_folder, mut state) = state(0);
            let mut codes = Codes::<W>::new(memory);
            let rows = 200 * PAYLOAD as u64;
            let value = |code: u8| [code; W];
            let code = |row: u64| (row * 7 % 13) as u8;
            // Two passes, so that pages leave the memory and return.
            for row in (0..rows).step_by(101).chain((7..rows).step_by(89)) {
                codes.set(&mut state, row, value(code(row))).unwrap();
            }
            for row in 0..rows {
                let is_set = row % 101 == 0 || row >= 7 && (row - 7) % 89 == 0;
                let expected = if is_set { code(row) } else { 0 };
                assert_eq!(codes.get(&mut state, row).unwrap(), value(expected), "row {row}");
            }
            assert_eq!(codes.get(&mut state, 1 << 40).unwrap(), value(0));
            assert!(codes.resident.len() <= codes.resident_max);
            assert_eq!(state.next > 1, memory == 0);
        }
    }
}
