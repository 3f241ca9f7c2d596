// SPDX-License-Identifier: Apache-2.0
//! With the artifact that TCCRT_TEST_ARTIFACT names, of samples/digits.
use tccrt::{Input, Model, Session};

fn artifact() -> String {
    std::env::var("TCCRT_TEST_ARTIFACT").expect("TCCRT_TEST_ARTIFACT: an artifact of samples/digits")
}

#[test]
fn runs() {
    let model = Model::open(&artifact()).unwrap();
    assert_eq!(model.entries(), ["main"]);
    let mut session = Session::new(&model).unwrap();
    let x = vec![0.5f32; 784];
    let outputs = session.run("main", &[Input::new(&x, &[1, 1, 28, 28]).unwrap()]).unwrap();
    assert_eq!(outputs[0].dims(), [1, 10]);
    assert_eq!(outputs[0].values::<f32>().unwrap().len(), 10);
    assert!(outputs[0].values::<f64>().is_none());
}

#[test]
fn fails() {
    let missing = Model::open("/nowhere.so").err().unwrap();
    assert_eq!(missing.code, 3);
    assert!(missing.message.contains("/nowhere.so"));
    let x = vec![0.5f32; 784];
    assert!(Input::new(&x, &[28, 27]).is_err());
    let model = Model::open(&artifact()).unwrap();
    let mut session = Session::new(&model).unwrap();
    assert_eq!(session.run("main", &[Input::new(&x, &[784]).unwrap()]).err().unwrap().code, 1);
    assert!(session.run("nothing", &[]).is_err());
}
