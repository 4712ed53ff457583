//! After a websocket handshake: bytes both ways, unread, until both sides have ended. Its record has no token measures.

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::metered::Guards;
use crate::clock;
use crate::lifecycle::{Phase, PhaseWatch};
use crate::measure::Ending;
use crate::observe::Exchange;

/// Splices the two sides. The exchange ends with the tunnel; cut at the drain deadline it finishes itself as drained.
pub(super) async fn run(client: OnUpgrade, server: OnUpgrade, mut exchange: Exchange, guards: Guards, mut phase: PhaseWatch) {
    let spliced = async {
        let (client, server): (Upgraded, Upgraded) = tokio::try_join!(client, server)?;
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        copy_bidirectional(&mut client, &mut server).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    let ending = tokio::select! {
        ended = spliced => Some(if ended.is_ok() { Ending::Complete } else { Ending::ClientGone }),
        () = phase.reached(Phase::Stopped) => None,
    };
    if let Some(ending) = ending {
        exchange.finish(clock::now(), ending);
    }
    drop((exchange, guards));
}
