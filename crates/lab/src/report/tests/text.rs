//! Summary, table, sentences, Markdown, JSON and CSV.

use super::invalidate;
use crate::checks::{Check, Finding, Validity};
use crate::report::{Summary, csv, json, markdown, overall, run_list, sentences, table};
use crate::stats::Verdict;
use crate::store::{RunId, RunLine, Status};
use crate::synthetic;
use crate::units::{Bytes, Nanos};

#[test]
fn a_target_of_half_the_speed_is_slower_in_every_test_and_over_all() {
    let run = synthetic::run(6);
    let summary = Summary::of(&run);
    assert_eq!(summary.comparisons.len(), 4);
    for test in &summary.comparisons {
        let found = test.comparison.unwrap();
        assert_eq!(found.verdict, Verdict::Slower);
        assert!(
            found.ratio.low <= 0.5 && 0.5 <= found.ratio.high + 0.05,
            "{found:?}"
        );
        assert_eq!(found.ratio.n, 6);
    }
    let sentence = overall(&run, &summary).remove(0);
    assert!(
        sentence.contains("over 4 tests") && sentence.contains("is slower than"),
        "{sentence}"
    );
    assert!(
        sentence.contains("95 % interval") && sentence.contains("6 blocks"),
        "{sentence}"
    );
}

#[test]
fn the_table_has_a_line_for_every_test_on_every_target_and_both_units() {
    let text = table(&synthetic::run(5));
    let lines: Vec<&str> = text.lines().collect();
    for head in [
        "MB/s",
        "MiB/s",
        "IOPS",
        "p50",
        "p99",
        "server CPU",
        "client CPU",
    ] {
        assert!(lines[0].contains(head), "{head} is not in {}", lines[0]);
    }
    for title in [
        "Sequential read",
        "Sequential write",
        "Random read",
        "Random write",
    ] {
        assert_eq!(
            lines.iter().filter(|line| **line == title).count(),
            1,
            "{title}"
        );
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with(&format!("{title}: "))),
            "{title}"
        );
    }
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("  /mnt/<media>"))
            .count(),
        4
    );
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("  /home/me"))
            .count(),
        4
    );
    assert!(lines.iter().any(|line| line.starts_with("Overall")));
    // The server works for the first target alone.
    let local = lines
        .iter()
        .find(|line| line.starts_with("  /home/me"))
        .unwrap();
    assert_eq!(local.matches('–').count(), 2, "{local}");
}

#[test]
fn columns_line_up() {
    let text = table(&synthetic::run(5));
    let ends: Vec<usize> = text
        .lines()
        .filter(|line| line.starts_with("  /"))
        .map(|line| line.split("good").next().unwrap().chars().count())
        .collect();
    assert_eq!(ends.len(), 8);
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

#[test]
fn an_invalid_result_is_said_with_its_reason_and_is_in_no_comparison() {
    let mut run = synthetic::run(5);
    invalidate(&mut run, 1, 0, "it is 167 % of the wire");
    let summary = Summary::of(&run);
    assert_eq!(summary.comparisons[1].comparison, None);
    assert!(summary.row(1, 0).unwrap().rate.is_none());
    assert!(!summary.row(1, 0).unwrap().validity.is_usable());
    let text = table(&run);
    assert!(
        text.contains("INVALID [1]") && text.contains("[1] it is 167 % of the wire."),
        "{text}"
    );
    assert!(
        text.contains("Sequential write: not compared, because"),
        "{text}"
    );
    assert!(overall(&run, &summary)[0].contains("over 3 tests"));
}

#[test]
fn one_invalid_block_of_five_is_left_out_and_said() {
    let mut run = synthetic::run(5);
    let cell = run
        .cells
        .iter_mut()
        .find(|cell| cell.workload == 2 && cell.target == 1)
        .unwrap();
    cell.findings
        .push(Finding::invalid(Check::Direct, "it was buffered"));
    let summary = Summary::of(&run);
    let row = summary.row(2, 1).unwrap();
    assert_eq!(
        (row.usable, row.blocks.len(), row.rate.unwrap().n),
        (4, 5, 4)
    );
    let Validity::Remarks { texts } = &row.validity else {
        panic!("{:?}", row.validity)
    };
    assert!(texts[0].contains("1 of 5 blocks"), "{texts:?}");
    assert_eq!(summary.comparisons[2].comparison.unwrap().ratio.n, 4);
}

#[test]
fn a_remark_of_every_block_is_noted_once() {
    let mut run = synthetic::run(5);
    for cell in &mut run.cells {
        cell.findings.push(Finding::remark(
            Check::Cache,
            "the server's cache was not dropped",
        ));
    }
    let text = table(&run);
    assert_eq!(
        text.matches("the server's cache was not dropped").count(),
        1
    );
    assert_eq!(text.matches("good [1]").count(), 8);
}

#[test]
fn unlike_jobs_are_not_compared() {
    let mut run = synthetic::run(5);
    for cell in run.cells.iter_mut().filter(|cell| cell.target == 1) {
        cell.fio_mut().unwrap().engine = "psync".into();
    }
    let summary = Summary::of(&run);
    assert!(
        summary
            .comparisons
            .iter()
            .all(|test| test.comparison.is_none())
    );
    assert!(sentences(&run, &summary)[0].contains("engine io_uring against psync"));
    assert!(overall(&run, &summary).is_empty());
}

#[test]
fn percentiles_of_too_few_operations_are_not_printed() {
    let mut run = synthetic::run(1);
    for cell in &mut run.cells {
        let result = cell.fio_mut().unwrap();
        result.latencies = crate::fio::Histogram::default();
        result.latencies.add(Nanos(1000), 26);
    }
    let summary = Summary::of(&run);
    let row = summary.row(0, 0).unwrap();
    assert!(row.p50.is_some() && row.p99.is_none());
}

/// "±0.0 %", an interval of no width, and a fastest target were printed of one block.
#[test]
fn a_run_with_fewer_blocks_than_an_interval_takes_has_none_and_says_so_first() {
    for count in [1, 4, 5] {
        let run = synthetic::run(count);
        let summary = Summary::of(&run);
        let whole = table(&run) + &markdown(&run) + &crate::report::html(&run);
        let sure = crate::report::contents::sureness(&run, &summary);
        let title = sentences::headline(&run, &summary);
        let is_few = count < 5;
        assert_eq!(sure.starts_with("Too few repeats: "), is_few, "{sure}");
        assert_eq!(title.starts_with("Too few repeats "), is_few, "{title}");
        assert_eq!(sure.contains('±'), !is_few, "{sure}");
        let intervals = whole.matches("95 % interval 0").count()
            + whole.matches("95 % interval 1").count()
            + whole.matches("95 % interval 2").count();
        assert_eq!(intervals == 0, is_few, "{intervals} of {count} blocks");
        assert_eq!(whole.contains("class=\"whisker\""), !is_few);
        assert!(!whole.contains("the fastest") || !is_few);
    }
}

/// The title named a fastest target by its median, however far its interval reached into that of the next.
#[test]
fn a_title_names_the_fastest_target_only_where_it_is_apart_from_the_others() {
    let title = |factors: &[f64], noise: u64| {
        let mut run = synthetic::run(8);
        let model: Vec<_> = run
            .cells
            .iter()
            .filter(|cell| cell.target == 1)
            .cloned()
            .collect();
        run.cells.retain(|cell| cell.target == 1);
        for (target, factor) in (2..).zip(factors) {
            let mut facts = run.manifest.targets[0].clone();
            facts.label = format!("/mnt/{target}");
            run.manifest.targets.push(facts);
            run.cells.extend(model.iter().map(|cell| {
                let mut cell = cell.clone();
                cell.target = target;
                let jitter = u64::from(cell.block) * target as u64 % 3 * noise;
                let result = cell.fio_mut().unwrap();
                result.bytes.0 = crate::units::round(result.bytes.0 as f64 * factor) + jitter;
                cell
            }));
        }
        run.manifest
            .skipped
            .extend((0..4).map(|workload| crate::store::Skipped {
                workload,
                target: 0,
                reason: None,
            }));
        sentences::headline(&run, &Summary::of(&run))
    };
    assert_eq!(
        title(&[2.0, 3.0, 0.5], 0),
        "3 targets against /home/me: /mnt/3 is the fastest, /mnt/4 is the slowest"
    );
    assert_eq!(
        title(&[2.0, 2.0, 0.5], 20_000_000),
        "3 targets against /home/me: /mnt/4 is the slowest"
    );
    assert_eq!(
        title(&[2.0, 2.0, 2.0], 20_000_000),
        "3 targets against /home/me: 3 faster, 0 slower"
    );
    assert_eq!(
        title(&[1.0, 1.0], 300_000_000),
        "2 targets against /home/me: no significant difference"
    );
}

#[test]
fn a_run_of_one_block_decides_nothing_and_says_how_much_is_missing() {
    let run = synthetic::run(1);
    let said = sentences(&run, &Summary::of(&run));
    assert!(
        said[0].contains("too few repeats to compare") && said[0].contains("4 blocks"),
        "{}",
        said[0]
    );
}

#[test]
fn a_run_without_measurements_and_one_with_a_single_target_have_reports() {
    let mut run = synthetic::run(0);
    run.samples.clear();
    run.elapsed = None;
    run.status = Status::Failed {
        reason: "the mount is gone".into(),
    };
    for text in [
        table(&run),
        markdown(&run),
        json(&run).unwrap(),
        crate::report::html(&run),
    ] {
        assert!(text.contains("the mount is gone"));
    }
    let mut alone = synthetic::run(5);
    alone.manifest.targets.truncate(1);
    alone.manifest.baseline = None;
    alone.cells.retain(|cell| cell.target == 0);
    let said = sentences(&alone, &Summary::of(&alone));
    assert_eq!(said.len(), 4);
    assert!(
        said[0].contains("MB/s") && said[0].contains("MiB/s"),
        "{}",
        said[0]
    );
    assert!(table(&alone).contains("/mnt/<media>"));
}

#[test]
fn json_holds_everything_and_is_read_back() {
    let run = synthetic::run(2);
    let value: serde_json::Value = serde_json::from_str(&json(&run).unwrap()).unwrap();
    assert_eq!(
        value["run"]["cells"].as_array().unwrap().len(),
        run.cells.len()
    );
    assert_eq!(value["summary"]["rows"].as_array().unwrap().len(), 8);
    let back: crate::store::RunRecord = serde_json::from_value(value["run"].clone()).unwrap();
    assert!(back == run, "the run changed on the way");
}

#[test]
fn csv_has_a_line_for_each_measurement_and_no_formula() {
    let mut run = synthetic::run(2);
    run.manifest.targets[0].label = "=cmd|'/c calc'!A1, \"quoted\"".into();
    let text = csv(&run);
    assert_eq!(text.lines().count(), 1 + run.cells.len());
    assert!(text.contains("\"'=cmd|'/c calc'!A1, \"\"quoted\"\"\""));
    let columns = text.lines().next().unwrap().split(',').count();
    assert!(
        text.lines()
            .filter(|line| !line.contains("cmd"))
            .all(|line| line.split(',').count() == columns)
    );
}

#[test]
fn markdown_escapes_what_comes_from_outside() {
    let mut run = synthetic::run(2);
    run.manifest.machine.processor = "a|b <script> [x](y)".into();
    let text = markdown(&run);
    assert!(
        !text.contains("<script>") && text.contains("a\\|b &lt;script&gt; \\[x\\](y)"),
        "{text}"
    );
    // Every table has as many cells in each line as in its head.
    for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let head = cells(table.lines().next().unwrap());
        assert!(table.lines().all(|line| cells(line) == head), "{table}");
    }
}

/// What one form says, the others say: each cell of each table is on the page and in JSON, and short
/// tables are in Markdown.
#[test]
fn the_page_markdown_and_json_have_the_same_figures() {
    let run = synthetic::full_run();
    let page = crate::report::html(&run);
    let text = markdown(&run);
    let value: serde_json::Value = serde_json::from_str(&json(&run).unwrap()).unwrap();
    let sections = value["report"].as_array().unwrap();
    assert_eq!(sections.len(), 9);
    let shown: std::collections::BTreeSet<&str> = page.split(['>', '<']).collect();
    let mut cells = 0;
    for figure in sections
        .iter()
        .flat_map(|section| section["figures"].as_array().unwrap())
    {
        let rows = figure["rows"].as_array().unwrap();
        for cell in rows.iter().flat_map(|row| row.as_array().unwrap()) {
            let cell = cell.as_str().unwrap();
            let escaped = cell
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;");
            assert!(shown.contains(escaped.as_str()), "{cell}");
            assert!(
                rows.len() > 60 || cell.contains(['_', '#']) || text.contains(&escaped),
                "{cell}"
            );
            cells += 1;
        }
    }
    assert!(cells > 1000, "{cells}");
    for sentence in value["verdict"].as_array().unwrap() {
        let sentence = sentence
            .as_str()
            .unwrap()
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(page.contains(&sentence), "{sentence}");
    }
}

#[test]
fn the_list_of_runs_names_each_with_its_targets() {
    let line = RunLine {
        id: RunId(3),
        plan: "quick".into(),
        targets: vec!["/mnt/media".into(), "/home/me".into()],
        started_unix_ms: 0,
        status: Status::Cancelled,
        cells: 12,
    };
    let text = run_list(&[line]);
    assert!(
        text.contains("/mnt/media against /home/me") && text.contains("1970-01-01"),
        "{text}"
    );
    assert!(run_list(&[]).contains("No run"));
}

/// A card wears out by what is written to it: reports have the bytes, those of the test files included.
#[test]
fn a_run_that_wrote_has_the_bytes_in_its_table_and_in_its_report() {
    let mut run = synthetic::run(2);
    let lay_out = crate::store::CommandLine {
        purpose: "lay-out".into(),
        line: "fio --name=lay-out".into(),
    };
    run.commands.extend([lay_out.clone(), lay_out]);
    for cell in &mut run.cells {
        cell.fio_mut().unwrap().bytes = Bytes(1 << 20);
    }
    // Two files of 512 MiB, and two write tests on two targets in two blocks.
    let line = "The run wrote 1.0 GiB to its targets";
    assert!(table(&run).contains(line), "{}", table(&run));
    assert!(markdown(&run).contains(line));
    run.commands.clear();
    assert!(table(&run).contains("The run wrote 8 MiB to its targets"));
    run.cells.retain(|cell| cell.workload % 2 == 0);
    assert!(!table(&run).contains("The run wrote"));
}

#[test]
fn a_write_with_its_fsync_is_a_time_in_json_of_which_less_is_better() {
    let mut run = synthetic::run(6);
    run.cells.retain(|cell| cell.workload == 3);
    for cell in &mut run.cells {
        let (block, target) = (u64::from(cell.block), cell.target as u64);
        let result = cell.fio_mut().unwrap();
        result.fsync = true;
        result.ios = 100;
        result.runtime = Nanos::from_ms(100 * (2 + 2 * target) + block % 3);
    }
    let json: serde_json::Value = serde_json::from_str(&json(&run).unwrap()).unwrap();
    let rows = json["summary"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["usable"] == 6).unwrap();
    assert_eq!(row["unit"], "nanoseconds", "{row}");
    assert_eq!(row["better"], "lower");
    assert!(row["rate"].is_null());
    let median = row["headline"]["median"].as_f64().unwrap();
    assert!((2.0e6..2.1e6).contains(&median), "{median}");
    let said = table(&run);
    assert!(said.contains("is faster than"), "{said}");
}

/// "All results are valid" stood next to a result that was not steady.
#[test]
fn what_disturbed_a_run_is_one_line_of_its_verdict_and_not_all_results_are_called_valid() {
    use crate::report::sentences::verdict;
    let mut run = synthetic::run(6);
    run.manifest.targets[1].device = Some("vdb".into());
    let said = verdict(&run, &Summary::of(&run), None).join(" ");
    assert!(said.contains("All 8 results are valid"), "{said}");
    assert!(!said.contains("Noise"), "{said}");
    for cell in run.cells.iter_mut().filter(|cell| cell.workload == 0) {
        if cell.target == 0 && cell.block % 2 == 0 {
            cell.fio_mut().unwrap().bytes.0 *= 3;
        }
    }
    run.cells[0].findings = vec![
        Finding::remark(Check::Noise, "a"),
        Finding::remark(Check::Noise, "b"),
    ];
    run.cells[1].findings = vec![Finding::remark(Check::Thermal, "throttled")];
    run.manifest.targets[1].device = run.manifest.targets[0].device.clone();
    let said = verdict(&run, &Summary::of(&run), None).join(" ");
    assert!(!said.contains("results are valid"), "{said}");
    let line = "Noise: 1 of 8 results are not steady; 1 of 48 measurements had other load or traffic; 1 of 48 \
                measurements had heat or throttling; targets share the device loop0.";
    assert!(said.contains(line), "{said}");
    assert!(table(&run).contains(line), "{}", table(&run));
}
