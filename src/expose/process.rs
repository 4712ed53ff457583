//! What `/proc` says about this process: memory, CPU time, descriptors, threads. Nothing on systems without it.

use std::fs;

/// Clock ticks a second in `/proc/*/stat`: USER_HZ is 100 on every Linux that this is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// One reading; a field is none when its file could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessSample {
    /// User and system CPU time, seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory, bytes.
    pub resident_bytes: Option<f64>,
    /// Open descriptors.
    pub open_fds: Option<f64>,
    /// Soft limit of descriptors; none when unlimited.
    pub max_fds: Option<f64>,
    /// Threads.
    pub threads: Option<f64>,
    /// Start, seconds since the epoch.
    pub start_seconds: Option<f64>,
}

impl ProcessSample {
    /// Reads it now: a handful of small files, well under a millisecond unless very many descriptors are open.
    pub fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        // The reading itself holds one descriptor open.
        let open = fs::read_dir("/proc/self/fd")
            .ok()
            .map(|dir| dir.count().saturating_sub(1) as f64);
        Self {
            open_fds: open,
            ..Self::parse(
                &text("/proc/self/stat"),
                &text("/proc/self/status"),
                &text("/proc/self/limits"),
                &text("/proc/stat"),
            )
        }
    }

    fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Self {
        // The command name is in brackets and may hold spaces and brackets itself: count from the last one, state is field 3.
        let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |n: usize| after.split_ascii_whitespace().nth(n - 3)?.parse::<f64>().ok();
        let status = |key: &str| first_number(status.lines().find_map(|line| line.strip_prefix(key))?);
        let boot = system
            .lines()
            .find_map(|line| line.strip_prefix("btime "))
            .and_then(first_number);
        Self {
            cpu_seconds: field(14)
                .zip(field(15))
                .map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            resident_bytes: status("VmRSS:").map(|kib| kib * 1024.0),
            open_fds: None,
            max_fds: limits
                .lines()
                .find_map(|line| line.strip_prefix("Max open files"))
                .and_then(first_number),
            threads: status("Threads:"),
            start_seconds: boot.zip(field(22)).map(|(boot, ticks)| boot + ticks / TICKS_PER_SECOND),
        }
    }

    /// The readings that there are, by family.
    pub(super) fn families(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        [
            ("process_cpu_seconds_total", self.cpu_seconds),
            ("process_resident_memory_bytes", self.resident_bytes),
            ("process_open_fds", self.open_fds),
            ("process_max_fds", self.max_fds),
            ("process_threads", self.threads),
            ("process_start_time_seconds", self.start_seconds),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

fn first_number(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|n| n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux_are_read() {
        let stat = "7 (odd ) name) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 6 7 20 0 9 0 1234 1000 200 18446744073709551615";
        let status = "Name:\todd\nVmRSS:\t   20480 kB\nThreads:\t9\n";
        let limits =
            "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        let sample = ProcessSample::parse(stat, status, limits, "cpu 1 2\nbtime 1700000000\n");
        assert_eq!(sample.cpu_seconds, Some(3.0));
        assert_eq!(sample.resident_bytes, Some(20.0 * 1024.0 * 1024.0));
        assert_eq!(sample.max_fds, Some(1024.0));
        assert_eq!(sample.threads, Some(9.0));
        assert_eq!(sample.start_seconds, Some(1_700_000_012.34));
    }

    #[test]
    fn what_cannot_be_read_gives_no_sample() {
        let sample = ProcessSample::parse("", "", "Max open files unlimited unlimited files\n", "");
        assert_eq!(sample, ProcessSample::default());
        assert_eq!(sample.families().count(), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_every_reading() {
        assert_eq!(ProcessSample::read().families().count(), 6);
    }
}
