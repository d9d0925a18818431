//! Nothing said is lost, nothing is done twice: all fault points, many kills at any moment, and many seeds of rough
//! lines, with a table at the end. A violation ends it with the story's seed and the way to repeat it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is the result, progress goes to the error output"
)]

use clap::Parser;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests_e2e::faults::{Outcome, Story, fault_points};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Kills of one story at any moment.
const KILLS: usize = 10;
/// First seed of each kind of story, so that no two kinds share one.
const KINDS: u64 = 1_000_000;

/// Kills the daemon at every fault point and at any moment, and lets lines misbehave.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask faults", bin_name = "cargo xtask faults")]
struct Arguments {
    /// A tenth of everything, and each fault point once
    #[arg(long)]
    quick: bool,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Kills at any moment [default: 200, quick: 20]
    #[arg(long)]
    instants: Option<usize>,
    /// Seeds of rough lines [default: 500, quick: 50]
    #[arg(long)]
    seeds: Option<usize>,
    /// Only fault points whose name begins so; `none` for none [default: all]
    #[arg(long, value_name = "NAME")]
    points: Option<String>,
    /// Stories at a time
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Show the log and all that was seen when a story is violated
    #[arg(long)]
    details: bool,
}

/// Stories of one kind, and what became of them.
struct Part {
    name: &'static str,
    stories: Vec<(Story, String)>,
}

#[derive(Default)]
struct Sum {
    stories: usize,
    kills: usize,
    messages: usize,
    connections: usize,
    rows: usize,
    violated: usize,
    took: Duration,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut table = format!(
        "{:<15} {:>7} {:>6} {:>9} {:>12} {:>7} {:>9} {:>8}\n",
        "", "stories", "kills", "messages", "connections", "rows", "seconds", "violated"
    );
    let mut violated = 0;
    for part in parts(&arguments) {
        let sum = runtime.block_on(play(&part, &arguments));
        let _ = writeln!(
            table,
            "{:<15} {:>7} {:>6} {:>9} {:>12} {:>7} {:>9.1} {:>8}",
            part.name,
            sum.stories,
            sum.kills,
            sum.messages,
            sum.connections,
            sum.rows,
            sum.took.as_secs_f64(),
            sum.violated
        );
        violated += sum.violated;
    }
    print!("{table}");
    if violated == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parts(arguments: &Arguments) -> Vec<Part> {
    let few = |usual: usize| if arguments.quick { usual.div_ceil(10) } else { usual };
    let instants = arguments.instants.unwrap_or(few(200));
    let seeds = arguments.seeds.unwrap_or(few(500));
    let seed = arguments.seed;
    let points = match arguments.points.as_deref() {
        Some("none") => Vec::new(),
        wanted => fault_points()
            .into_iter()
            .filter(|point| wanted.is_none_or(|wanted| point.starts_with(wanted)))
            .filter(|point| !arguments.quick || point.ends_with(":1"))
            .collect(),
    };
    let at_points = points.into_iter().map(|point| {
        let again = format!("--points {point} --instants 0 --seeds 0 --seed {seed}");
        (Story::at_point(seed, &point), again)
    });
    let at_instants = (0..instants.div_ceil(KILLS)).map(|number| {
        let kills = KILLS.min(instants - number * KILLS);
        let first = seed + number as u64;
        (Story::with_kills(first + KINDS, kills), format!("--points none --instants {kills} --seeds 0 --seed {first}"))
    });
    let on_lines = (0..seeds as u64).map(|number| {
        let first = seed + number;
        (Story::on_rough_lines(first + 2 * KINDS), format!("--points none --instants 0 --seeds 1 --seed {first}"))
    });
    vec![
        Part { name: "fault points", stories: at_points.collect() },
        Part { name: "any moment", stories: at_instants.collect() },
        Part { name: "rough lines", stories: on_lines.collect() },
    ]
}

async fn play(part: &Part, arguments: &Arguments) -> Sum {
    let begun = Instant::now();
    let room = Arc::new(Semaphore::new(arguments.jobs.max(1)));
    let mut playing = JoinSet::new();
    for (story, again) in part.stories.clone() {
        let room = room.clone();
        playing.spawn(async move {
            let _place = room.acquire_owned().await;
            let outcome = story.play().await;
            (outcome, story, again)
        });
    }
    let mut sum = Sum::default();
    while let Some(played) = playing.join_next().await {
        match played {
            Ok((outcome, story, again)) => {
                add(&mut sum, &outcome);
                report(&outcome, &story, &again, arguments.details);
            }
            Err(error) => {
                sum.violated += 1;
                eprintln!("a story ended with a panic: {error}");
            }
        }
        if sum.stories % 20 == 0 || playing.is_empty() {
            let (name, all, took) = (part.name, part.stories.len(), begun.elapsed().as_secs());
            eprintln!("{name}: {} of {all} stories, {} violated, {took} s", sum.stories, sum.violated);
        }
    }
    sum.took = begun.elapsed();
    sum
}

fn add(sum: &mut Sum, outcome: &Outcome) {
    sum.stories += 1;
    sum.kills += outcome.kills;
    sum.messages += outcome.messages;
    sum.connections += outcome.connections;
    sum.rows += outcome.rows;
    sum.violated += usize::from(!outcome.violations.is_empty());
}

fn report(outcome: &Outcome, story: &Story, again: &str, details: bool) {
    if outcome.violations.is_empty() {
        return;
    }
    let what = story.point.clone().unwrap_or_else(|| format!("seed {}", story.seed));
    eprintln!("VIOLATED in {what}:");
    outcome.violations.iter().for_each(|violation| eprintln!("  {violation}"));
    if details {
        eprintln!("{}", outcome.details);
    }
    eprintln!("  again: cargo xtask faults {again} --details");
}
