// SPDX-License-Identifier: Apache-2.0
//! Classifies a picture with the network of samples/digits: `cargo run --example classify digits.so digit-3.pgm`.
use std::error::Error;

/// The pixels of a binary PGM file without comments, from 0 to 1.
fn read_picture(path: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let pixels = bytes.len().checked_sub(784).ok_or("expected a PGM picture of 28 x 28")?;
    if !bytes.starts_with(b"P5") {
        return Err("expected a binary PGM picture".into());
    }
    Ok(bytes[pixels..].iter().map(|&b| f32::from(b) / 255.0).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, artifact, picture] = words.as_slice() else {
        return Err("usage: classify digits.so PICTURE.pgm".into());
    };
    let model = tccrt::Model::open(artifact)?;
    let mut session = tccrt::Session::new(&model)?;
    let pixels = read_picture(picture)?;
    let outputs = session.run(&model.entries()[0], &[tccrt::Input::new(&pixels, &[1, 1, 28, 28])?])?;
    let scores = outputs[0].values::<f32>().ok_or("the scores are no floats")?;
    let label = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).ok_or("no scores")?;
    println!("label: {label}");
    Ok(())
}
