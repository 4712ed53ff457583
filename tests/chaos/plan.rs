//! What happens to one request: a fault, a place, and bytes that both ends work out from a seed.

use std::fmt;
use std::str::FromStr;

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator of its own for every seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n.max(1)
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing, in several forms.
    None,
    Length,
    UntilClose,
    EarlyHints,
    SlowReader,
    BigUpload,
    ChunkedUpload,
    Pipelined,
    Unavailable,
    // The upstream's.
    UpstreamReset,
    UpstreamFin,
    BadChunk,
    ResetBeforeHead,
    CloseBeforeHead,
    GarbageHead,
    HugeHead,
    Stall,
    // The client's.
    Cancel,
    Reset,
    HalfClose,
    GarbageRequest,
    PartOfHead,
    PartOfBody,
}

use Fault::*;

impl Fault {
    /// Every one.
    pub const ALL: [Self; 23] = [
        None,
        Length,
        UntilClose,
        EarlyHints,
        SlowReader,
        BigUpload,
        ChunkedUpload,
        Pipelined,
        Unavailable,
        UpstreamReset,
        UpstreamFin,
        BadChunk,
        ResetBeforeHead,
        CloseBeforeHead,
        GarbageHead,
        HugeHead,
        Stall,
        Cancel,
        Reset,
        HalfClose,
        GarbageRequest,
        PartOfHead,
        PartOfBody,
    ];

    /// Whether the reply must arrive whole.
    pub fn is_harmless(self) -> bool {
        self <= Unavailable
    }
}

/// One request's fate; travels in the `x-chaos` header.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub events: u64,
    pub fault: Fault,
    /// The event at which it happens.
    pub at: u64,
}

impl Plan {
    /// Half of them without harm.
    pub fn random(random: &mut Random) -> Self {
        let events = 1 + random.below(40);
        let fault = match random.below(10) {
            0..=3 => None,
            4 => Fault::ALL[random.below(Unavailable as u64 + 1) as usize],
            _ => Fault::ALL[random.below(Fault::ALL.len() as u64) as usize],
        };
        Self {
            seed: random.next(),
            events,
            fault,
            at: random.below(events),
        }
    }

    /// The reply's events, the same at both ends.
    pub fn reply(&self) -> Vec<Vec<u8>> {
        if self.fault == Unavailable {
            return vec![b"{\"error\":{\"message\":\"busy\"}}".to_vec()];
        }
        let mut random = Random::new(self.seed);
        let mut events = Vec::new();
        for _ in 0..self.events {
            let len = if random.below(16) == 0 {
                random.below(6000)
            } else {
                random.below(40)
            };
            let words = ["tok", " é", "\\n", "\\ud83d\\ude00", " 漢", "x", " data: ", "\\\""];
            let text: String = (0..=len).map(|_| words[random.below(8) as usize]).collect();
            events.push(format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n").into_bytes());
        }
        events.push(b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_vec());
        let tokens = self.events;
        events.push(
            format!("data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\ndata: [DONE]\n\n").into_bytes(),
        );
        events
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.seed, self.events, self.fault as usize, self.at)
    }
}

impl FromStr for Plan {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [seed, events, fault, at] = numbers[..] else {
            return Err(());
        };
        let fault = *Fault::ALL.get(usize::try_from(fault).map_err(|_| ())?).ok_or(())?;
        Ok(Self { seed, events, fault, at })
    }
}
