package rootcause

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded returns an output of testdata.
func recorded(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParseTorchrun(t *testing.T) {
	for _, tt := range []struct {
		file string
		want []Child
	}{
		{"torchrun-kill.0.txt", []Child{{0, 0, 1, 43}}},
		{"torchrun-kill.1.txt", []Child{{1, 0, -9, 26}}},
		{"torchrun-segv.1.txt", []Child{{3, 1, -11, 92}}},
		{"later-torchrun-killed.txt", []Child{{13, 5, -9, 4210}}},
		{"later-torchrun-several.txt", []Child{{2, 2, 2, 212}, {1, 1, 1, 211}, {3, 3, -6, 213}}},
		{"later-torchrun-1.9.txt", []Child{{4, 0, 3, 88}, {5, 1, 1, 89}}},
		{"torchrun-recorded.0.txt", []Child{{0, 0, 1, 129}}},
		{"torch-kill.0.txt", nil},
	} {
		if got := ParseTorchrun(recorded(t, tt.file)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.file, got, tt.want)
		}
	}
	line, _, _ := strings.Cut(recorded(t, "later-torchrun-killed.txt"), "Traceback")
	if got, want := ParseTorchrun(line), []Child{{-1, 5, -9, 4210}}; !slices.Equal(got, want) {
		t.Errorf("without the summary: got %v, want %v", got, want)
	}
}

func TestParseMPI(t *testing.T) {
	for _, tt := range []struct {
		file string
		want MPI
	}{
		{"mpirun-exit-code.txt", MPI{Rank: 3, ExitCode: 17, LostDaemon: -1}},
		{"mpirun-rank-killed.txt", MPI{Rank: 4, Host: "172.17.0.4", ExitCode: -1, Signal: 9, LostDaemon: -1}},
		{"mpirun-orted-killed.txt", MPI{Rank: -1, Host: "172.17.0.3", ExitCode: -1, LostDaemon: 1}},
		{"mpirun-stopped-rank.txt", MPI{Rank: -1, ExitCode: -1, LostDaemon: -1}},
		{"later-prterun-exit.txt", MPI{Rank: 3, ExitCode: 17, LostDaemon: -1}},
		{"later-prterun-killed.txt", MPI{Rank: 4, Host: "10.0.0.6", ExitCode: -1, Signal: 9, LostDaemon: -1}},
		{"later-prterun-lost.txt", MPI{Rank: -1, Host: "10.0.0.6", ExitCode: -1, LostDaemon: 2}},
		{"torch-kill.0.txt", MPI{Rank: -1, ExitCode: -1, LostDaemon: -1}},
	} {
		if got := ParseMPI(recorded(t, tt.file)); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.file, got, tt.want)
		}
	}
}

func TestParseErrorFile(t *testing.T) {
	e, ok := ParseErrorFile([]byte(recorded(t, "error.json")))
	if !ok || e.Message != "ValueError: the loss is not a number" || !strings.Contains(e.Traceback, "r.py") || e.At.Year() < 2020 {
		t.Errorf("got %+v, %v", e, ok)
	}
	for _, tt := range []struct {
		data string
		want ErrorFile
		ok   bool
	}{
		{`{"message": "a program's own"}`, ErrorFile{Message: "a program's own"}, true},
		{`{"message": {"message": "m", "extraInfo": {"timestamp": 1700000000}}}`, ErrorFile{Message: "m", At: time.Unix(1_700_000_000, 0)}, true},
		{`{"message": {"message": "m", "extraInfo": {"timestamp": "soon"}}}`, ErrorFile{Message: "m"}, true},
		{`{"message": {}}`, ErrorFile{}, false},
		{`{"message": null}`, ErrorFile{}, false},
		{`{`, ErrorFile{}, false},
		{``, ErrorFile{}, false},
	} {
		if e, ok := ParseErrorFile([]byte(tt.data)); e != tt.want || ok != tt.ok {
			t.Errorf("%s: got %+v, %v", tt.data, e, ok)
		}
	}
}

// TestPeers checks each pattern, and that a program's own error is none.
func TestPeers(t *testing.T) {
	for _, line := range []string{
		"RuntimeError: [./gloo/transport/tcp/pair.cc:589] Read error [172.23.0.3]:23730: Connection reset by peer",
		"RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [172.23.0.3]:38537",
		"BrokenPipeError: [Errno 32] Broken pipe",
		"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:10567: Connection refused",
		"read tcp 10.0.0.4:4000->10.0.0.5:4000: read: connection reset by peer",
		"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
		"RuntimeError: NCCL communicator was aborted on rank 1. Original reason for failure was: ...",
		"[rank0]:[E412 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
		"RuntimeError: [./gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 15000ms for recv operation to complete",
		"torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
		"TimeoutError: The client socket has timed out after 5s while trying to connect to (172.23.0.2, 29777).",
		"torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
		"WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 91 closing signal SIGTERM",
		"The coordination service heartbeat timeout: task 3",
		"ORTE has lost communication with a remote daemon.",
		"An MPI communication peer process has unexpectedly disconnected.  This",
	} {
		if got := readText("step 1\n" + line + "\n"); !got.peer || got.ownError {
			t.Errorf("%s: %+v", line, got)
		}
	}
	for _, line := range []string{
		"ValueError: the loss is not a number", "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried", "KeyError: 'x'",
		"[default0]:AssertionError", "[1,0]<stderr>:RuntimeError: mat1 and mat2 shapes cannot be multiplied", "panic: runtime error: index out of range",
	} {
		if got := readText("step 1\n" + line); got.peer || !got.ownError || got.last == "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := readText(strings.Repeat("step\n", lastLines)); got.peer || got.ownError {
		t.Errorf("got %+v", got)
	}
	if got := readText("Broken pipe\n" + strings.Repeat("step\n", lastLines)); got.peer {
		t.Error("a line of long ago counts")
	}
}

func TestNCCL(t *testing.T) {
	for _, tt := range []struct {
		output, hint string
		want         int
	}{
		{recorded(t, "later-nccl-remote.txt"), "", 6},
		{recorded(t, "later-nccl-watchdog.txt"), "another collective", 8},
		{recorded(t, "later-nccl-shm.txt"), "--shm-size", 2},
		{"ncclUnhandledCudaError: Call to CUDA function failed.", "Xid", 1},
		{"Test NCCL failure common.cu:958 'unhandled system error'", "InfiniBand", 2},
		{"NCCL error in: ProcessGroupNCCL.cpp:784, internal error, NCCL version 2.7.8", "releases of NCCL", 3},
		{"ncclInvalidArgument: Invalid value for an argument.", "LOCAL_RANK", 4},
		{"NCCL error in: ProcessGroupNCCL.cpp:784, invalid usage, NCCL version 2.7.8", "LOCAL_RANK", 5},
		{recorded(t, "nccl-one-gpu.txt"), "two ranks may use one GPU", 5},
		{"ncclRemoteError: ...\nncclInternalError: ...", "releases of NCCL", 3},
		{recorded(t, "later-cuda-memory.txt"), "batch smaller", 0},
		{"Connection reset by peer", "", 0},
	} {
		if got := NCCL(tt.output); got != tt.want {
			t.Errorf("%.60q: got %d, want %d", tt.output, got, tt.want)
		}
		if got := Hint(tt.output); !strings.Contains(got, tt.hint) || (got == "") != (tt.hint == "") {
			t.Errorf("%.60q: got hint %q, want %q", tt.output, got, tt.hint)
		}
	}
}

// FuzzText checks that no output breaks what reads it.
func FuzzText(f *testing.F) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if !file.IsDir() {
			f.Add(recorded(f, file.Name()))
		}
	}
	f.Fuzz(func(t *testing.T, output string) {
		got := readText(output)
		for _, c := range got.torchrun {
			if c.Rank < -1 || c.LocalRank < 0 {
				t.Errorf("got %+v", c)
			}
		}
		if m := got.mpirun; m.Rank < -1 || m.LostDaemon < -1 {
			t.Errorf("got %+v", m)
		}
		if len(got.last) > 300 {
			t.Errorf("a line of %d bytes", len(got.last))
		}
		ParseErrorFile([]byte(output))
		Hint(output)
	})
}
