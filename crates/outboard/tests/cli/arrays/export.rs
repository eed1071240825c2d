//! Arrays below exports that commands add and remove.

use super::super::serve::connect;
use super::super::sockets::NbdSession;
use super::super::{Server, answer, outboard};
use super::{assert_clean, images, json, mirror, status};

#[test]
fn an_array_is_clean_when_its_export_was_removed() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "x=memory(1M)"];
    let (_server, uri) = Server::start(outboard(path, &serve));
    answer(path, &["export", "add", "films=array(a.img, b.img)"]);
    answer(path, &["array", "wait", "media"]);
    let mut client = NbdSession::open(connect(&uri), "films").expect("served");
    client.write(&[7; 4096]).expect("it is written");
    let report = status(path, &["films"]);
    assert_eq!(report["clean"], false, "{report}");

    answer(path, &["export", "remove", "films"]);
    assert!(client.read(512).is_none());
    let arrays = json(path, &["array", "status"]);
    assert_eq!(arrays, serde_json::json!([]), "no array is run any more");
    assert_clean(path, &["a.img", "b.img"]);
    let report = status(path, &["a.img", "b.img"]);
    assert_eq!(report["clean"], true, "{report}");
}
