//! Inflates the measuring copy of a compressed body, piece by piece. The traffic itself is never touched.
//!
//! gzip (several members too), deflate (with or without the zlib wrapper, since both are in use under that name), br and zstd.
//! Several codings on top of each other, and unknown ones, are not read.
//!
//! Caps: [`MAX_OUTPUT`] bytes out of each [`SLICE`] bytes in, past which a decompression bomb is assumed; the window is at most
//! 32 KiB for gzip and deflate, 16 MiB for br (its format's limit without the large-window extension) and
//! 2^[`ZSTD_WINDOW_LOG`] bytes for zstd. After a failure nothing more is read: it is reported once.

mod gzip;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Operation};

use self::gzip::Gzip;
use crate::measure::Degraded;

/// Input taken at a time, for which [`MAX_OUTPUT`] holds.
pub(crate) const SLICE: usize = 16 * 1024;

/// Most output of one slice of input, 256 times its size: text of a stream shrinks to a tenth or a twentieth.
pub(crate) const MAX_OUTPUT: usize = 256 * SLICE;

/// Largest zstd window accepted, 8 MiB: what RFC 9659 grants the content coding.
pub(crate) const ZSTD_WINDOW_LOG: u32 = 23;

/// Output handed on at a time.
const BUFFER: usize = 8 * 1024;

/// An inflater of one body.
pub(crate) struct Inflate {
    codec: Codec,
    buffer: Vec<u8>,
}

enum Codec {
    Gzip(Box<Gzip>),
    /// Deflate whose first byte has not come.
    DeflateStart,
    Deflate(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(zstd::stream::raw::Decoder<'static>),
    /// The compressed body is through; what follows is ignored.
    Ended,
    /// A coding that is not read here: reported with the first bytes.
    Unreadable,
    /// Reported.
    Failed,
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate").finish_non_exhaustive()
    }
}

impl Inflate {
    /// The inflater for a `content-encoding` value (several header lines joined by commas); none when there is nothing to inflate.
    pub(crate) fn for_encoding(value: &str) -> Option<Self> {
        let mut codings = value
            .split(',')
            .map(str::trim)
            .filter(|c| !c.is_empty() && !c.eq_ignore_ascii_case("identity"));
        let first = codings.next()?;
        let codec = if codings.next().is_some() {
            Codec::Unreadable
        } else {
            Codec::named(first)
        };
        Some(Self {
            codec,
            buffer: Vec::new(),
        })
    }

    /// Whether what comes can still be read.
    pub(crate) fn is_readable(&self) -> bool {
        !matches!(self.codec, Codec::Unreadable | Codec::Failed)
    }

    /// Inflates `bytes` and hands the output to `out`, all that can be had: a sender's flush is seen at once.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut out: impl FnMut(&[u8])) -> Result<(), Degraded> {
        for slice in bytes.chunks(SLICE) {
            let mut left = MAX_OUTPUT;
            let result = self.codec.run(slice, &mut self.buffer, &mut |piece| {
                left = left.checked_sub(piece.len()).ok_or(Degraded::InflateCap)?;
                out(piece);
                Ok(())
            });
            if let Err(why) = result {
                self.codec = Codec::Failed;
                self.buffer = Vec::new();
                return Err(why);
            }
        }
        Ok(())
    }
}

/// What takes the output; refuses more when over the cap.
type Out<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Degraded>;

impl Codec {
    fn named(coding: &str) -> Self {
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            return Self::Gzip(Box::new(Gzip::new()));
        }
        if coding.eq_ignore_ascii_case("deflate") {
            return Self::DeflateStart;
        }
        if coding.eq_ignore_ascii_case("br") {
            let alloc = StandardAlloc::default;
            return Self::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())));
        }
        if coding.eq_ignore_ascii_case("zstd")
            && let Ok(mut decoder) = zstd::stream::raw::Decoder::new()
            && decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).is_ok()
        {
            return Self::Zstd(decoder);
        }
        Self::Unreadable
    }

    fn run(&mut self, input: &[u8], buffer: &mut Vec<u8>, out: Out<'_>) -> Result<(), Degraded> {
        match self {
            Self::DeflateStart => {
                // The low four bits of a zlib wrapper's first byte are 8. Raw deflate beginning so would open with a stored block
                // whose padding is not zero, which no encoder writes.
                let wrapped = input.first().is_some_and(|b| b & 0x0F == 8);
                *self = Self::Deflate(Decompress::new(wrapped));
                return self.run(input, buffer, out);
            }
            Self::Ended | Self::Failed => return Ok(()),
            Self::Unreadable => return Err(Degraded::Encoding),
            Self::Gzip(_) | Self::Deflate(_) | Self::Brotli(_) | Self::Zstd(_) => {}
        }
        buffer.resize(BUFFER, 0);
        let mut rest = input;
        loop {
            let step = match self {
                Self::Gzip(gzip) => gzip.step(rest, buffer)?,
                Self::Deflate(decompress) => deflate(decompress, rest, buffer)?,
                Self::Brotli(state) => brotli(state, rest, buffer)?,
                Self::Zstd(decoder) => zstd_step(decoder, rest, buffer)?,
                Self::DeflateStart | Self::Ended | Self::Unreadable | Self::Failed => return Ok(()),
            };
            out(&buffer[..step.written])?;
            rest = &rest[step.read..];
            if step.ended {
                *self = Self::Ended;
                return Ok(());
            }
            // A full buffer may hide more; no input left and room to spare does not.
            let stuck = step.read == 0 && step.written == 0;
            if stuck || (rest.is_empty() && step.written < BUFFER) {
                return if stuck && !rest.is_empty() {
                    Err(Degraded::Encoding)
                } else {
                    Ok(())
                };
            }
        }
    }
}

struct Step {
    read: usize,
    written: usize,
    ended: bool,
}

fn deflate(decompress: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<Step, Degraded> {
    let (before_in, before_out) = (decompress.total_in(), decompress.total_out());
    let status = decompress
        .decompress(input, output, FlushDecompress::Sync)
        .map_err(|_| Degraded::Encoding)?;
    let moved = |now: u64, before: u64| usize::try_from(now - before).map_err(|_| Degraded::Encoding);
    Ok(Step {
        read: moved(decompress.total_in(), before_in)?,
        written: moved(decompress.total_out(), before_out)?,
        ended: status == Status::StreamEnd,
    })
}

fn brotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
    output: &mut [u8],
) -> Result<Step, Degraded> {
    let (mut left_in, mut read) = (input.len(), 0);
    let (mut left_out, mut written, mut total) = (output.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left_in,
        &mut read,
        input,
        &mut left_out,
        &mut written,
        output,
        &mut total,
        state,
    );
    match result {
        BrotliResult::ResultFailure => Err(Degraded::Encoding),
        BrotliResult::ResultSuccess => Ok(Step {
            read,
            written,
            ended: true,
        }),
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok(Step {
            read,
            written,
            ended: false,
        }),
    }
}

fn zstd_step(decoder: &mut zstd::stream::raw::Decoder<'static>, input: &[u8], output: &mut [u8]) -> Result<Step, Degraded> {
    // The end of a frame is not the end of the body: another frame may follow.
    let status = decoder.run_on_buffers(input, output).map_err(|_| Degraded::Encoding)?;
    Ok(Step {
        read: status.bytes_read,
        written: status.bytes_written,
        ended: false,
    })
}

#[cfg(test)]
mod tests;
