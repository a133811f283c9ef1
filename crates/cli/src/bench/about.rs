//! What a record says of the machine: driver, clocks, date.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// What `nvidia-smi` says of a CUDA device; nothing for others, or where it is missing.
fn nvidia_smi(device: &str, query: &str) -> Option<Vec<String>> {
    let index = device.strip_prefix("cuda:")?;
    let query = format!("--query-gpu={query}");
    let out = Command::new("nvidia-smi").args(["-i", index, &query, "--format=csv,noheader,nounits"]).output().ok()?;
    if !out.status.success() {
        return None;
    }
    Some(String::from_utf8(out.stdout).ok()?.lines().next()?.split(',').map(|s| s.trim().to_owned()).collect())
}

/// Version of the driver.
pub(crate) fn driver(device: &str) -> Option<String> {
    nvidia_smi(device, "driver_version")?.into_iter().next()
}

/// Clock of the multiprocessors in MHz and power in watts, now.
pub(crate) fn clock_and_power(device: &str) -> Option<(f64, f64)> {
    let values = nvidia_smi(device, "clocks.sm,power.draw")?;
    Some((values.first()?.parse().ok()?, values.get(1)?.parse().ok()?))
}

/// Today, in UTC: `2026-11-30`.
pub(crate) fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    civil(seconds / 86400)
}

/// The date so many days after 1970-01-01, by eras of 400 years that begin in March.
fn civil(days: u64) -> String {
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn dates_follow_the_calendar() {
        for (days, date) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (11_017, "2000-03-01"), (20_787, "2026-11-30")] {
            assert_eq!(civil(days), date);
        }
    }
}
