// SPDX-License-Identifier: Apache-2.0
// Links libtccrt.a: from the folder that TCCRT_LIBDIR names, else from where pkg-config has it.
use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=TCCRT_LIBDIR");
    let folder = env::var("TCCRT_LIBDIR").unwrap_or_else(|_| {
        let out = Command::new("pkg-config")
            .args(["--variable=libdir", "tccrt"])
            .output()
            .expect("pkg-config, or TCCRT_LIBDIR, is needed to find libtccrt.a");
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    });
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static=tccrt");
    for library in ["m", "pthread", "dl"] {
        println!("cargo:rustc-link-lib={library}");
    }
}
