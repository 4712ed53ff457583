//! The program as a process: exit codes, and what goes to which stream.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// The program with nothing of our own environment's configuration.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_goodput-proxy"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = program(arguments).output().unwrap();
    (
        status.code(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

/// A running proxy on ports of the kernel's choice; killed when the test fails before it ended.
struct Proxy {
    child: Child,
    admin: String,
    log: BufReader<std::process::ChildStdout>,
}

impl Proxy {
    fn start(drain_delay: &str) -> Self {
        let arguments = [
            "run",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--log-format",
            "json",
        ];
        let mut child = program(&arguments)
            .env("GOODPUT__DRAIN__DELAY", drain_delay)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let admin = line["admin"].as_str().unwrap().to_owned();
        Self { child, admin, log }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Reads the log until a line holds `text`.
    fn until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended without {text:?}");
        }
    }

    fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn usage_errors_exit_2_and_help_and_version_0() {
    for arguments in [
        &["nope"][..],
        &["--nope"],
        &["run", "--listen"],
        &["--listen", "127.0.0.1:0", "check"],
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.starts_with("error: "), "{stderr}");
    }
    let version = concat!("goodput-proxy ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]), (Some(0), version.to_owned(), String::new()));
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    for flag in [
        "--config",
        "--listen",
        "--upstream",
        "--admin",
        "--slo",
        "--objective",
        "--log-format",
        "--log-level",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
}

#[test]
fn a_wrong_configuration_exits_2_whatever_the_command() {
    let problems =
        "--listen: \"x\": is not an address to listen on; write an IP address and a port, as in `0.0.0.0:8080` or `[::]:8080`
--objective: \"1\": is not between 0 and 1 (both excluded); write a share such as 0.99
2 problems in the configuration\n";
    for command in [&[][..], &["run"], &["check"], &["healthcheck"]] {
        let (code, stdout, stderr) = run(&[command, &["--listen", "x", "--objective", "1"]].concat());
        assert_eq!(
            (code, stdout.as_str(), stderr.as_str()),
            (Some(2), "", problems),
            "{command:?}"
        );
    }
}

#[test]
fn the_environment_can_name_the_file_and_a_missing_one_hides_no_other_problem() {
    let named = |file: &str, arguments: &[&str]| {
        let output = program(arguments).env("GOODPUT__CONFIG", file).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let vllm = concat!(env!("CARGO_MANIFEST_DIR"), "/config/vllm.yaml");
    let (code, said) = named(vllm, &["check"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("SLOs: chat (short, long)"), "{said}");
    let (_, said) = named("/nowhere.yaml", &["check", "--config", vllm]);
    assert!(said.contains("SLOs: chat (short, long)"), "the flag stands above: {said}");
    let missing = "/nowhere.yaml: No such file or directory (os error 2); name a file that can be read
--objective: \"1\": is not between 0 and 1 (both excluded); write a share such as 0.99
2 problems in the configuration\n";
    assert_eq!(
        named("/nowhere.yaml", &["check", "--objective", "1"]),
        (Some(2), missing.to_owned())
    );
}

#[test]
fn a_right_configuration_is_summed_up_on_one_line() {
    let (code, stdout, stderr) = run(&["check", "--config", concat!(env!("CARGO_MANIFEST_DIR"), "/config/vllm.yaml")]);
    let summary = "OK: 0.0.0.0:8080 -> http://127.0.0.1:8000, admin 0.0.0.0:9464; 7 routes; \
                   SLOs: chat (short, long), completions (interactive)\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), summary, ""));
}

#[test]
fn an_address_in_use_exits_1_and_says_which() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, stderr) = run(&["--listen", &address, "--admin", "127.0.0.1:0"]);
    assert_eq!(code, Some(1));
    assert!(
        stderr.starts_with(&format!("cannot listen on {address} (`listen`): ")),
        "{stderr}"
    );
}

#[test]
fn a_healthcheck_tells_a_live_proxy_from_one_that_a_second_signal_ended() {
    let mut proxy = Proxy::start("5s");
    let admin = proxy.admin.clone();
    assert_eq!(
        run(&["healthcheck", "--admin", &admin]),
        (Some(0), String::new(), String::new())
    );
    proxy.signal("TERM");
    proxy.until("draining");
    proxy.signal("INT");
    assert_eq!(proxy.ended().code(), Some(130));
    let (code, stdout, stderr) = run(&["healthcheck", "--admin", &admin]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with(&format!("not live at {admin}: ")), "{stderr}");
}

#[test]
fn a_healthcheck_of_what_never_answers_says_so() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = silent.local_addr().unwrap().to_string();
    let (code, _, stderr) = run(&["healthcheck", "--admin", &admin]);
    assert_eq!(
        (code, stderr),
        (Some(1), format!("not live at {admin}: no answer within 2 s\n"))
    );
}

#[test]
fn one_signal_with_nothing_under_way_is_a_clean_stop() {
    for no_delay in ["off", "0s"] {
        let proxy = Proxy::start(no_delay);
        proxy.signal("TERM");
        assert_eq!(proxy.ended().code(), Some(0));
    }
}
