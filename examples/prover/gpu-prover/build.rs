//! Builds this crate's CUDA code. What to build stands in cudabuild.toml; this finds cudabuild.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{exit, Command};

const NOT_FOUND: &str = "cudabuild was not found. Each of these lets this build see it:
  python3 -m venv .venv && . .venv/bin/activate && pip install cudabuild
  pipx install cudabuild
  export CUDABUILD=/path/to/cudabuild
`pip install 'cudabuild[cuda13]'` brings a CUDA toolkit along.";

fn main() {
    // One colon, since cargo refuses `cargo::` in a crate whose rust-version is below 1.77.
    println!("cargo:rerun-if-changed=build.rs");
    let mut build = find().unwrap_or_else(|| fail(NOT_FOUND));
    build.arg("build");

    // Flags that must be computed, such as the headers of a crate with `links = "blst"`, go here:
    // build.arg("--include").arg(env::var_os("DEP_BLST_C_SRC").unwrap());

    // On stdout cudabuild tells cargo what to link and when to run this script again.
    match build.status() {
        Ok(status) => exit(status.code().unwrap_or(1)),
        Err(error) => fail(&format!("cannot start {build:?}: {error}")),
    }
}

/// CUDABUILD, else the active virtual or conda environment's, else PATH's, else python3's module.
fn find() -> Option<Command> {
    if let Some(named) = variable("CUDABUILD") {
        return Some(Command::new(named));
    }
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter();
    let bins = environments.filter_map(|name| Some(PathBuf::from(variable(name)?).join("bin")));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = bins.chain(env::split_paths(&path));
    let mut files = folders.map(|folder| folder.join("cudabuild"));
    if let Some(file) = files.find(|file| file.is_file()) {
        return Some(Command::new(file));
    }
    let mut python = Command::new("python3");
    let probe = python.args(["-c", "import cudabuild.__main__"]).output();
    let mut module = Command::new("python3");
    module.args(["-m", "cudabuild"]);
    probe.ok()?.status.success().then_some(module)
}

/// A variable that is set to something; cargo runs this script again when it changes.
fn variable(name: &str) -> Option<OsString> {
    println!("cargo:rerun-if-env-changed={name}");
    env::var_os(name).filter(|value| !value.is_empty())
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}
