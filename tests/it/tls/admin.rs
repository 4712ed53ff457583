//! The admin port: TLS, the check from beside it, and its token.

use super::*;
use crate::rig::nobody;

/// The program with TLS on its admin port, whose certificate is `own`.
fn with_admin_tls(own: &Own) -> Program {
    let folder = TempDir::new().unwrap();
    own.write(folder.path(), "own");
    let at = folder.path().display();
    let text = format!("admin_tls: {{ cert: {at}/own.crt, key: {at}/own.key }}\ndrain: {{ delay: 'off' }}\n");
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    Program::start(folder)
}

/// The reply of the admin port to `GET path` over TLS.
fn admin_get(program: &Program, path: &str, config: ClientConfig) -> std::io::Result<String> {
    let mut tls = connect(&program.admin, config);
    write!(tls, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    tls.read_to_string(&mut reply)?;
    Ok(reply)
}

#[test]
fn the_admin_port_speaks_tls_alone_and_its_certificate_can_be_rotated() {
    let (old, new) = (Ca::new(), Ca::new());
    let mut program = with_admin_tls(&old.issue("localhost"));
    let get = |program: &Program, path: &str, ca: &Ca| admin_get(program, path, trusting(ca, None, &["h2", "http/1.1"]));
    let metrics = get(&program, "/metrics", &old).unwrap();
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("\ngoodput_proxy_open_connections 0\n"), "{metrics}");
    assert!(get(&program, "/livez", &old).unwrap().starts_with("HTTP/1.1 200 "));
    assert!(get(&program, "/livez", &new).is_err(), "not of that CA");
    let mut clear = TcpStream::connect(&program.admin).unwrap();
    clear.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut refused = Vec::new();
    let _ = clear.read_to_end(&mut refused);
    assert!(!refused.starts_with(b"HTTP"), "no clear text on a TLS port");

    new.issue("localhost").write(program.folder(), "own");
    program.hang_up(&["certificate or token files reloaded"]);
    assert!(get(&program, "/livez", &new).unwrap().starts_with("HTTP/1.1 200 "));
    assert!(get(&program, "/livez", &old).is_err());
}

#[test]
fn half_a_handshake_on_the_admin_port_does_not_hold_up_the_end() {
    let ca = Ca::new();
    let mut program = with_admin_tls(&ca.issue("localhost"));
    let mut silent = TcpStream::connect(&program.admin).unwrap();
    silent.write_all(&[0x16, 0x03, 0x01]).unwrap();
    assert!(
        admin_get(&program, "/drain", trusting(&ca, None, &[]))
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
    program.terminate();
    program.until(&["stopped, nothing was cut"]);
}

#[test]
fn a_healthcheck_accepts_the_certificate_of_the_file_under_any_name_and_no_other() {
    let ca = Ca::new();
    // For a name that no probe asks for, and with an end long ago.
    let mut parameters = CertificateParams::new(["proxy.test".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let program = with_admin_tls(&ca.issue_as(&parameters));
    let check = || {
        let output = Command::new(env!("CARGO_BIN_EXE_goodput-proxy"))
            .args(["healthcheck", "--admin", &program.admin, "--config"])
            .arg(program.file())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check(), (Some(0), String::new()));
    ca.issue("proxy.test").write(program.folder(), "own");
    let (code, stderr) = check();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("invalid peer certificate"), "{stderr}");
    fs::remove_file(program.folder().join("own.crt")).unwrap();
    let (code, stderr) = check();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("own.crt: No such file or directory"), "{stderr}");
}

#[test]
fn the_admin_port_asks_for_a_token_that_can_be_rotated() {
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let (_nobody, upstream) = nobody();
    let text = format!(
        "upstream: {{ url: 'http://{upstream}' }}\nadmin_auth: {{ token_file: '{}' }}\ndrain: {{ delay: 'off' }}\n",
        token.display()
    );
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    let mut program = Program::start(folder);
    // A proxy that answers is ready.
    let mut client = TcpStream::connect(&program.listen).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 502 "), "{reply}");
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let ask = |program: &Program, path: &str, headers: &str| program.ask(path, headers).0;
    for probe in ["/livez", "/readyz"] {
        assert_eq!(ask(&program, probe, ""), 200, "{probe}");
    }
    for path in ["/metrics", "/config", "/requests", "/drain", "/"] {
        assert_eq!(ask(&program, path, ""), 401, "{path}");
        assert_eq!(ask(&program, path, &bearer("0123456789abcdeX")), 401, "{path}");
    }
    assert_eq!(ask(&program, "/readyz", ""), 200, "nothing began to drain");
    let (status, config) = program.ask("/config", &bearer("0123456789abcdef"));
    assert_eq!(status, 200);
    assert!(!config.contains("0123456789abcdef"), "{config}");

    fs::write(&token, "fedcba9876543210").unwrap();
    program.hang_up(&["certificate or token files reloaded"]);
    assert_eq!(ask(&program, "/metrics", &bearer("0123456789abcdef")), 401);
    assert_eq!(ask(&program, "/metrics", &bearer("fedcba9876543210")), 200);
    assert_eq!(ask(&program, "/drain", &bearer("fedcba9876543210")), 200);
    assert_eq!(ask(&program, "/readyz", ""), 503);
}
