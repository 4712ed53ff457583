//! Which threads of the program give way to the data path.

use std::collections::BTreeMap;
use std::fs;

use crate::rig::program::Program;

/// The nice value of each thread of a process, by name; that of the first of a name.
fn priorities(pid: u32) -> BTreeMap<String, i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |folder: std::path::PathBuf| {
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        // Field 19 of the line; the first behind the name is the third.
        Some((name.to_owned(), rest.split_whitespace().nth(16)?.parse().ok()?))
    };
    threads.filter_map(|thread| of(thread.unwrap().path())).collect()
}

#[test]
fn beside_one_worker_scrapes_probes_and_the_log_give_way() {
    for (workers, below, last) in [(1, 10, 19), (2, 0, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("upstream: {{ url: 'http://127.0.0.1:9' }}\nworkers: {workers}\n");
        fs::write(folder.path().join("config.yaml"), config).unwrap();
        let program = Program::start(folder);
        assert_eq!(program.ask("/metrics", "").0, 200);
        let got = priorities(program.pid());
        let own = got["goodput-proxy"];
        for (thread, steps) in [
            ("log", 10),
            ("admin", below),
            ("reload", below),
            ("scrape", last),
            ("signals", 0),
        ] {
            assert_eq!(
                got[thread],
                (own + steps).min(19),
                "{thread} beside {workers} workers: {got:?}"
            );
        }
    }
}
