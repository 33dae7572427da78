//! Builds the CUDA library of crate supraseal-c2 from the sources that cargo downloaded.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{exit, Command};

use serde_json::Value;

const NOT_FOUND: &str = "cudabuild was not found. Each of these lets this build see it:
  python3 -m venv .venv && . .venv/bin/activate && pip install cudabuild
  pipx install cudabuild
  export CUDABUILD=/path/to/cudabuild
`pip install 'cudabuild[cuda13]'` brings a CUDA toolkit along.";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.lock"); // other versions of the crates lie in other folders
    let metadata = metadata();
    let supraseal = package(&metadata, "supraseal-c2");
    let sppark = package(&metadata, "sppark").join("sppark");
    // One unit is the library: groth16_cuda.cu includes the folder's other .cu files. The other source finds the GPUs.
    let unit = supraseal.join("cuda/groth16_cuda.cu");
    let gpus = sppark.join("util/all_gpus.cpp");
    let blst = env::var_os("DEP_BLST_C_SRC").expect("blst prints where its C sources are");

    let mut build = find().unwrap_or_else(|| fail(NOT_FOUND));
    build.arg("build");
    build.arg("--source").arg(unit);
    build.arg("--source").arg(gpus);
    build.arg("--include").arg(sppark);
    build.arg("--include").arg(blst);
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("adx") {
        build.arg("--define").arg("__ADX__"); // as blst does, unless RUSTFLAGS names a target-cpu
    }

    match build.status() {
        Ok(status) => exit(status.code().unwrap_or(1)),
        Err(error) => fail(&format!("cannot start {build:?}: {error}")),
    }
}

/// What cargo knows of this crate's dependencies, those for other targets included.
fn metadata() -> Value {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap());
    cargo.args(["metadata", "--frozen", "--format-version", "1"]);
    let output = cargo.output().unwrap();
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        fail("cargo cannot say where the CUDA sources lie; `cargo fetch` downloads them");
    }
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The folder of a package's sources.
fn package(metadata: &Value, name: &str) -> PathBuf {
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let found = packages.find(|package| package["name"] == name).unwrap();
    let manifest = PathBuf::from(found["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().into()
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
