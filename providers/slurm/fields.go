package slurm

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// separator separates fields in the output of squeue and sinfo. No name can have it.
const separator = "\x1f"

// rows splits the output of a command with n fields in a line. The last one may have separators. It skips the heads that
// --clusters adds; ok is false if another line has too few fields.
func rows(out string, n int) (all [][]string, ok bool) {
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "CLUSTER: ") {
			continue
		}
		fields := strings.SplitN(line, separator, n)
		if len(fields) != n {
			return nil, false
		}
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		all = append(all, fields)
	}
	return all, true
}

// A record is what scontrol -o prints of one thing.
type record map[string]string

// keys matches the beginning of a field of scontrol -o. A value may have blanks.
var keys = regexp.MustCompile(`(?:^| )([A-Za-z][A-Za-z0-9_/:]*)=`)

// parseRecord reads a line of scontrol -o. If a key comes twice, the first counts.
func parseRecord(line string) record {
	r := record{}
	at := keys.FindAllStringSubmatchIndex(line, -1)
	for i, m := range at {
		value := line[m[1]:]
		if i+1 < len(at) {
			value = line[m[1]:at[i+1][0]]
		}
		if key := line[m[2]:m[3]]; r[key] == "" {
			r[key] = strings.TrimSpace(value)
		}
	}
	return r
}

// parseRecords reads the lines that begin with a key.
func parseRecords(out, key string) (all []record) {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, key+"=") {
			all = append(all, parseRecord(line))
		}
	}
	return all
}

// text returns a value, or "" if Slurm has none.
func (r record) text(key string) string {
	switch v := r[key]; strings.ToLower(v) {
	case "(null)", "n/a", "none", "unknown":
		return ""
	default:
		return v
	}
}

// number returns a value, or 0.
func (r record) number(key string) float64 { return number(r[key]) }

func number(text string) float64 {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "+"), 64)
	if err != nil || !(n >= 0) || n > math.MaxInt32 {
		return 0
	}
	return n
}

// parseSeconds reads a time that SLURM_TIME_FORMAT=%s has made seconds. It returns zero for "N/A" and the like.
func parseSeconds(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > 1<<40 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// unlimited is a time limit without end.
const unlimited = time.Duration(math.MaxInt64)

// parseLimit reads a time limit, as sinfo, squeue and scontrol show it: "1-00:00:00", "5:00", "infinite". It returns 0 for
// "NONE", "n/a", and what it cannot read.
func parseLimit(text string) time.Duration {
	switch strings.ToLower(text) {
	case "infinite", "unlimited":
		return unlimited
	}
	days, clock, ok := strings.Cut(text, "-")
	if !ok {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	for ok && len(parts) < 3 { // "1-12" and "1-12:30" are days, hours and minutes
		parts = append(parts, "0")
	}
	total := 0.0
	for _, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil || len(parts) > 3 {
			return 0
		}
		total = total*60 + float64(n)
	}
	if !ok && len(parts) == 1 {
		total *= 60 // minutes alone
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if total += float64(n) * 24 * 3600; err != nil || total >= float64(math.MaxInt64/time.Second) {
		return 0
	}
	return time.Duration(total) * time.Second
}

// parseMemory reads an amount of memory in MiB: "500M", "2G", "16000". It returns 0 for what it cannot read.
func parseMemory(text string) float64 {
	text = strings.TrimRight(text, "cn") // per CPU, per node: older versions
	factor := 1.0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMGTP", text[n-1]); i >= 0 {
			factor, text = math.Pow(1024, float64(i-1)), text[:n-1]
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || math.IsInf(n*factor, 0) {
		return 0
	}
	return n * factor
}
