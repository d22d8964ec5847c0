package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A gpuCount is a number of GPUs of one type. The type may be empty.
type gpuCount struct {
	kind  string
	count int
}

// parseGRES reads the GPUs in a list of generic resources, as sinfo, squeue and scontrol show it in all versions:
// "gpu:a100:2", "gpu:2", "gpu:a100:2(S:0-1)", "gpu:a100:1(IDX:0),shard:4", "gres:gpu:a100:1", "gres/gpu:a100:1", "(null)". GPUs
// of one type are added up.
func parseGRES(text string) (all []gpuCount) {
	text = strings.ReplaceAll(text, "(null)", "")
	for _, part := range splitOutside(text) {
		part, _, _ = strings.Cut(part, "(")
		part = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(part), "gres:"), "gres/")
		fields := strings.Split(part, ":")
		if fields[0] != "gpu" {
			continue // nic, shard, mps, license
		}
		kind, n := "", 1
		fields = slices.DeleteFunc(fields[1:], func(f string) bool { return f == "no_consume" })
		if len(fields) > 0 {
			if count, ok := parseCount(fields[len(fields)-1]); ok {
				n, fields = count, fields[:len(fields)-1]
			}
			kind = strings.Join(fields, ":")
		}
		all = addGPUs(all, strings.Trim(kind, ":"), n)
	}
	return all
}

// splitOutside splits a list at commas that are not in parentheses.
func splitOutside(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		return r == ',' && depth <= 0
	})
}

// parseCount reads a number of GPUs, which no type is.
func parseCount(text string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "K"))
	return n, err == nil && n >= 0 && n < 1<<16
}

func addGPUs(all []gpuCount, kind string, n int) []gpuCount {
	for i := range all {
		if all[i].kind == kind {
			all[i].count += n
			return all
		}
	}
	return append(all, gpuCount{kind, n})
}

// parseTRES reads the GPUs in trackable resources: "cpu=2,mem=1000M,gres/gpu=3,gres/gpu:a100=3". The sum of all types comes
// with the empty type, if it is there.
func parseTRES(text string) (all []gpuCount) {
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		rest, ours := strings.CutPrefix(key, "gres/gpu")
		if kind, typed := strings.CutPrefix(rest, ":"); ours && (typed || rest == "") {
			if n, ok := parseCount(value); ok {
				all = append(all, gpuCount{kind, n})
			}
		}
	}
	return all
}

// countOf returns the number of GPUs of a type, and whether it is in the list.
func countOf(all []gpuCount, kind string) (int, bool) {
	for _, g := range all {
		if g.kind == kind {
			return g.count, true
		}
	}
	return 0, false
}

// gresText writes what sbatch --gres takes.
func gresText(kind string, n int) string {
	if kind == "" {
		return "gpu:" + strconv.Itoa(n)
	}
	return "gpu:" + kind + ":" + strconv.Itoa(n)
}

// cpuType is the instance type of jobs without GPUs.
const cpuType = "cpu"

// instanceType returns the name of the kind of machine: its GRES, or cpuType.
func instanceType(kind string, n int) string {
	if n == 0 {
		return cpuType
	}
	return gresText(kind, n)
}

func parseInstanceType(name string) (kind string, n int, err error) {
	if name == cpuType {
		return "", 0, nil
	}
	all := parseGRES(name)
	if len(all) != 1 || all[0].count < 1 || instanceType(all[0].kind, all[0].count) != name {
		return "", 0, fmt.Errorf("%q is not an instance type of this provider", name)
	}
	return all[0].kind, all[0].count, nil
}
