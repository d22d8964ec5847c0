// Package faketools has nvidia-smi, rocm-smi, dmesg and journalctl as scripts that say what a test tells them, while they run.
package faketools

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Tools are scripts in a folder, for a machine's PATH.
type Tools struct {
	// Dir is the folder.
	Dir string

	t testing.TB
}

// New makes the tools of a machine with NVIDIA's devices, so many, whose kernel log is empty. nvidia-smi prints a sample ten
// times a second, however long it is to wait.
func New(t testing.TB, gpus int) *Tools {
	t.Helper()
	f := &Tools{Dir: t.TempDir(), t: t}
	for i := range gpus {
		f.Set(i, map[string]string{
			"index": strconv.Itoa(i), "uuid": fmt.Sprintf("GPU-%d000", i), "pci.bus_id": fmt.Sprintf("00000000:%02X:00.0", i+1), "name": "NVIDIA A100-SXM4-80GB",
			"memory.used": "11", "memory.total": "81920", "utilization.gpu": "0", "utilization.memory": "0", "temperature.gpu": "33", "power.draw": "61.02", "clocks.sm": "210",
			"ecc.errors.uncorrected.volatile.total": "0", "clocks_event_reasons.active": "0x0000000000000001", "mig.mode.current": "Disabled", "driver_version": "550.90.07", "compute_cap": "8.0",
			"remapped_rows.pending": "No", "remapped_rows.failure": "No",
		})
	}
	f.Write("kernel", "[ 1.000000] booted\n")
	f.script("nvidia-smi", nvidiaSMI)
	f.script("dmesg", dmesg)
	f.script("journalctl", "[ -e \"$d/journal\" ] || exit 1\ncase \"$*\" in *-kf*) exec tail -n +1 -f \"$d/journal\" ;; esac\nexec tail -n 1 \"$d/journal\"")
	return f
}

const nvidiaSMI = `say() {
	[ ! -e "$d/hang" ] || exec sleep 1000
	[ ! -e "$d/broken" ] || { cat "$d/broken"; exit 15; }
	for gpu in "$d"/gpu*; do
		row= IFS=,
		for field in $1; do
			value=$(sed -n "s/^$field=//p" "$gpu")
			[ -n "$value" ] || { echo "Field \"$field\" is not a valid field to query."; exit 2; }
			row=$row${row:+, }$value
		done
		unset IFS
		echo "$row"
	done
}
echo "$*" >>"$d/calls"
case "$*" in
-L)
	value() { sed -n "s/^$1=//p" "$gpu"; }
	for gpu in "$d"/gpu*; do echo "GPU $(value index): $(value name) (UUID: $(value uuid))"; done ;;
--query-compute-apps=*) cat "$d/apps" 2>/dev/null ;;
--query-remapped-rows=*) exit 2 ;;
--query-gpu=*)
	fields=${1#--query-gpu=}
	case "$*" in
	*" -l "*) while :; do say "$fields"; sleep 0.1; done ;;
	*) say "$fields" ;;
	esac ;;
*) exit 6 ;;
esac`

const dmesg = `[ ! -e "$d/denied" ] || { echo "dmesg: read kernel buffer failed: Operation not permitted" >&2; exit 1; }
case $1 in
--help) echo " -w, --follow   wait for new messages" ;;
--follow) exec tail -n +1 -f "$d/kernel" ;;
*) cat "$d/kernel" ;;
esac`

func (f *Tools) script(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.Dir, name), []byte("#!/bin/sh\nd='"+f.Dir+"'\n"+text+"\n"), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

// Script replaces a tool by other shell text. The folder is in $d.
func (f *Tools) Script(name, text string) { f.t.Helper(); f.script(name, text) }

// Set gives a device values of fields, in addition to those that it has. An empty value makes the field unknown.
func (f *Tools) Set(gpu int, values map[string]string) {
	f.t.Helper()
	name := fmt.Sprintf("gpu%02d", gpu)
	had, _ := os.ReadFile(filepath.Join(f.Dir, name))
	all := map[string]string{}
	for line := range strings.Lines(string(had)) {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[field] = value
	}
	maps.Copy(all, values)
	var text strings.Builder
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if all[field] != "" {
			fmt.Fprintf(&text, "%s=%s\n", field, all[field])
		}
	}
	f.Write(name, text.String())
}

// Vanish makes a device one that the driver does not list.
func (f *Tools) Vanish(gpu int) { f.Remove(fmt.Sprintf("gpu%02d", gpu)) }

// Hang makes nvidia-smi hang, until Remove("hang").
func (f *Tools) Hang() { f.Write("hang", "") }

// Kernel adds a line to the kernel's log.
func (f *Tools) Kernel(line string) {
	f.t.Helper()
	file, err := os.OpenFile(filepath.Join(f.Dir, "kernel"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	fmt.Fprintf(file, "[%d.%06d] %s\n", 100+time.Now().Unix()%100_000_000, time.Now().Nanosecond()/1000, line)
}

// Write writes a file that the tools look at, at once.
func (f *Tools) Write(name, text string) {
	f.t.Helper()
	temporary := filepath.Join(f.Dir, "."+name)
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(f.Dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// Remove removes such a file.
func (f *Tools) Remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.Dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// Calls returns the arguments with which nvidia-smi was called.
func (f *Tools) Calls() []string {
	text, _ := os.ReadFile(filepath.Join(f.Dir, "calls"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// Running returns the commands of processes that have the tools in their PATH, on Linux.
func (f *Tools) Running() (commands []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		env, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(env, []byte("PATH="+f.Dir)) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if words := strings.Fields(string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))); err == nil && len(words) > 0 {
			commands = append(commands, strings.Join(words[:min(len(words), 4)], " "))
		}
	}
	return commands
}
