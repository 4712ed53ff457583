//! The framing of gzip around deflate: header, trailer, one member after another. The header's texts are passed over at any length,
//! its own check sum is not looked at; the content's is.
//!
//! flate2's writer does the same and clears 32 KiB of room at each of its steps, six times for an event that comes by itself.

use flate2::{Crc, Decompress};

use super::{Step, deflate};
use crate::measure::Degraded;

const MAGIC: [u8; 3] = [0x1F, 0x8B, 8];
/// Bytes of the header that are always there; the flags are the fourth.
const FIXED: usize = 10;
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0xE0;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// So many bytes of the fixed header are through.
    Fixed(usize),
    /// The low byte of the extra field's length, then the high one beside it.
    ExtraLow,
    ExtraHigh(u8),
    Extra(u16),
    /// A text up to its zero; the flag says which.
    Text(u8),
    /// So many bytes of the header's check sum are through.
    HeaderCrc(usize),
    Data,
    /// So many bytes of the trailer are through.
    Trailer(usize),
}

/// An inflater of gzip.
pub(super) struct Gzip {
    part: Part,
    flags: u8,
    decompress: Decompress,
    crc: Crc,
    trailer: [u8; 8],
}

impl Gzip {
    pub(super) fn new() -> Self {
        Self {
            part: Part::Fixed(0),
            flags: 0,
            decompress: Decompress::new(false),
            crc: Crc::new(),
            trailer: [0; 8],
        }
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Degraded> {
        let mut read = 0;
        while self.part != Part::Data {
            let Some(byte) = input.get(read) else { break };
            self.framing(*byte)?;
            read += 1;
        }
        let mut written = 0;
        if self.part == Part::Data {
            let step = deflate(&mut self.decompress, &input[read..], output)?;
            (read, written) = (read + step.read, step.written);
            self.crc.update(&output[..written]);
            if step.ended {
                self.part = Part::Trailer(0);
            }
        }
        Ok(Step {
            read,
            written,
            // Another member may follow.
            ended: false,
        })
    }

    fn framing(&mut self, byte: u8) -> Result<(), Degraded> {
        self.part = match self.part {
            Part::Fixed(at) => {
                if MAGIC.get(at).is_some_and(|magic| *magic != byte) {
                    return Err(Degraded::Encoding);
                }
                if at == MAGIC.len() {
                    self.flags = byte;
                    if byte & RESERVED != 0 {
                        return Err(Degraded::Encoding);
                    }
                }
                if at + 1 < FIXED { Part::Fixed(at + 1) } else { self.behind(0) }
            }
            Part::ExtraLow => Part::ExtraHigh(byte),
            Part::ExtraHigh(low) => match u16::from_le_bytes([low, byte]) {
                0 => self.behind(EXTRA),
                len => Part::Extra(len),
            },
            Part::Extra(1) => self.behind(EXTRA),
            Part::Extra(left) => Part::Extra(left - 1),
            Part::Text(flag) if byte == 0 => self.behind(flag),
            Part::HeaderCrc(1) => Part::Data,
            Part::HeaderCrc(at) => Part::HeaderCrc(at + 1),
            Part::Trailer(at) => {
                self.trailer[at] = byte;
                if at + 1 < self.trailer.len() {
                    Part::Trailer(at + 1)
                } else {
                    self.next_member()?
                }
            }
            same @ (Part::Text(_) | Part::Data) => same,
        };
        Ok(())
    }

    /// What the header has behind the part of this flag; 0 for the fixed part.
    fn behind(&self, flag: u8) -> Part {
        let rest = |of| flag < of && self.flags & of != 0;
        if rest(EXTRA) {
            Part::ExtraLow
        } else if rest(NAME) {
            Part::Text(NAME)
        } else if rest(COMMENT) {
            Part::Text(COMMENT)
        } else if self.flags & HEADER_CRC != 0 {
            Part::HeaderCrc(0)
        } else {
            Part::Data
        }
    }

    fn next_member(&mut self) -> Result<Part, Degraded> {
        let [a, b, c, d, e, f, g, h] = self.trailer;
        let (sum, len) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if (sum, len) != (self.crc.sum(), self.crc.amount()) {
            return Err(Degraded::Encoding);
        }
        self.decompress.reset(false);
        self.crc.reset();
        Ok(Part::Fixed(0))
    }
}
