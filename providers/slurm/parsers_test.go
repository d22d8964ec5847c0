package slurm

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// The texts are those of Slurm 20.02 to 25.11.
func TestGRES(t *testing.T) {
	for text, want := range map[string][]gpuCount{
		"gpu:a100:2":                          {{"a100", 2}},
		"gpu:2":                               {{"", 2}},
		"gpu":                                 {{"", 1}},
		"gpu:a100":                            {{"a100", 1}},
		"gpu:a100:2(S:0-1)":                   {{"a100", 2}},
		"gpu:a100:1,gpu:v100:3":               {{"a100", 1}, {"v100", 3}},
		"gpu:a100:1(S:0,2),gpu:a100:3(S:1)":   {{"a100", 4}},
		"gpu:1g.10gb:7":                       {{"1g.10gb", 7}},
		"gpu:a100:1(IDX:0),shard:a100:4(0/4)": {{"a100", 1}},
		"gpu:(null):2(IDX:0-1)":               {{"", 2}},
		"gres:gpu:a100:1":                     {{"a100", 1}},
		"gres/gpu:a100:1":                     {{"a100", 1}},
		"gpu:tesla:no_consume:2":              {{"tesla", 2}},
		"gpu:nvidia_h100_80gb_hbm3:8(S:0-1)":  {{"nvidia_h100_80gb_hbm3", 8}},
		"nic:2,mps:200,craynetwork:4":         nil,
		"(null)":                              nil,
		"N/A":                                 nil,
		"":                                    nil,
	} {
		if got := parseGRES(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string][]gpuCount{
		"cpu=2,mem=1000M,billing=2,gres/gpu=3,gres/gpu:a100=3": {{"", 3}, {"a100", 3}},
		"cpu=8,mem=16000M,billing=8":                           nil,
		"gres/gpumem=40G,gres/gpuutil=0,gres/gpu=1":            {{"", 1}},
		"": nil,
	} {
		if got := parseTRES(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1-00:00:00": 24 * time.Hour, "7-12:30:05": 180*time.Hour + 30*time.Minute + 5*time.Second, "1:00:00": time.Hour, "5:00": 5 * time.Minute,
		"00:30:00": 30 * time.Minute, "30": 30 * time.Minute, "2-12": 60 * time.Hour, "1-00:30": 24*time.Hour + 30*time.Minute,
		"infinite": unlimited, "UNLIMITED": unlimited,
		"NONE": 0, "n/a": 0, "INVALID": 0, "": 0, "-1": 0, "1:2:3:4": 0, "99999999999999:00": 0, "Partition_Limit": 0,
	} {
		if got := parseLimit(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]float64{"500M": 500, "2G": 2048, "16000": 16000, "1T": 1 << 20, "4Gn": 4096, "1024K": 1, "0": 0, "": 0, "?": 0, "-1": 0} {
		if got := parseMemory(text); got != want {
			t.Errorf("%q is %v MiB, want %v", text, got, want)
		}
	}
}

func TestRecords(t *testing.T) {
	line := "NodeName=c1 Arch=x86_64 CPUAlloc=2 OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=16000 CfgTRES=cpu=8,mem=16000M,gres/gpu=2 AllocTRES= Reason=Not responding [slurm@1795763] Comment=(null)"
	r := parseRecord(line)
	for key, want := range map[string]string{
		"NodeName": "c1", "Arch": "x86_64", "OS": "Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0", "CfgTRES": "cpu=8,mem=16000M,gres/gpu=2", "AllocTRES": "", "Reason": "Not responding [slurm@1795763]",
	} {
		if r[key] != want {
			t.Errorf("%s is %q, want %q", key, r[key], want)
		}
	}
	if r.text("Comment") != "" || r.number("RealMemory") != 16000 || r.number("Arch") != 0 {
		t.Errorf("%v", r)
	}
}

// These answers are recorded from the testbed, and its nodes with accounting for GPUs, of Slurm 23.11, follow its documentation.
func TestNodes(t *testing.T) {
	sinfo := strings.ReplaceAll(recordedText(t, "sinfo.txt"), "|", separator)
	nodes, err := parseNodes(sinfo, recordedText(t, "scontrol-show-node.txt"))
	if err != nil || len(nodes) != 5 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	n := nodes[0]
	if n.name != "c1" || n.partition != "gpu" || !n.isDefault || n.cpus != 8 || n.memoryMiB != 16000 || n.arch != "amd64" || !reflect.DeepEqual(n.features, []string{"a100", "nvlink"}) {
		t.Errorf("%+v", n)
	}
	if !n.takesJobs() || n.free("a100") != 1 || n.freeCPUs != 7 || n.freeMiB != 15500 {
		t.Errorf("%+v", n)
	}
	partitions, err := parsePartitions(recordedText(t, "scontrol-show-partition.txt"))
	if err != nil || partitions["gpu"].maxTime != 24*time.Hour || partitions["scavenge"].grace != 10*time.Second || partitions["short"].defaultTime != 0 || !partitions["short"].up {
		t.Errorf("%+v, %v", partitions, err)
	}
	if got := preemptible(partitions, "preempt/partition_prio"); !reflect.DeepEqual(got, []string{"scavenge"}) {
		t.Errorf("preemptible are %q", got)
	}
	if got := preemptible(partitions, "preempt/qos"); got != nil {
		t.Errorf("preemptible by QOS are %q", got)
	}

	for _, tt := range []struct {
		gres, cfg, alloc, used string
		kind                   string
		free                   int
	}{
		{"gpu:a100:4", "cpu=8,gres/gpu=4", "cpu=1,gres/gpu=3,gres/gpu:a100=3", "", "a100", 1},
		{"gpu:a100:4", "cpu=8,gres/gpu=4", "cpu=1,gres/gpu=3", "", "a100", 1},
		{"gpu:a100:4", "cpu=8,gres/gpu=4", "", "", "a100", 4},
		{"gpu:4", "cpu=8,gres/gpu=4", "cpu=1,gres/gpu=1", "", "", 3},
		{"gpu:4", "cpu=8", "", "gpu:(null):3(IDX:0-2)", "", 1},
		{"gpu:a100:2,gpu:v100:2", "cpu=8,gres/gpu=4", "gres/gpu=2,gres/gpu:v100=2", "", "v100", 0},
		{"gpu:a100:2,gpu:v100:2", "cpu=8", "", "gpu:a100:1(IDX:0),gpu:v100:0(IDX:N/A)", "v100", 2},
	} {
		line := strings.Join([]string{"n", "p", "mix", tt.gres, "8", "1000", "(null)", "infinite", "n/a"}, separator)
		nodes, err := parseNodes(line, "NodeName=n Gres="+tt.gres+" GresUsed="+tt.used+" CfgTRES="+tt.cfg+" AllocTRES="+tt.alloc)
		if err != nil || nodes[0].free(tt.kind) != tt.free {
			t.Errorf("%+v: %d are free, %v", tt, nodes[0].free(tt.kind), err)
		}
	}
}

func TestNodeStates(t *testing.T) {
	for state, want := range map[string][2]bool{ // takes jobs now, and may later
		"idle": {true, true}, "mix": {true, true}, "idle~": {true, true}, "mix#": {true, true}, "alloc": {false, true}, "comp": {false, true}, "resv": {false, true}, "maint": {false, true},
		"idle*": {false, true}, "down": {false, false}, "down*": {false, false}, "drain": {false, false}, "drng": {false, false}, "drng*": {false, false}, "fail": {false, false}, "unk*": {false, false}, "idle$": {false, true},
	} {
		n := siteNode{state: state}
		if got := [2]bool{n.takesJobs(), n.canRun()}; got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
}

func TestQueue(t *testing.T) {
	jobs, err := parseQueue(strings.ReplaceAll(recordedText(t, "squeue.txt"), "|", separator))
	if err != nil || len(jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	j := jobs["31"]
	if j.nodeName() != "p1-0" || j.state != "RUNNING" || j.node != "c1" || j.limit != 10*time.Minute || j.submitted.Unix() != 1795763845 || gpusOf(j) != 1 || j.cpus != 1 || j.memoryMiB != 500 {
		t.Errorf("%+v", j)
	}
	if j.comment.addr != "172.18.0.3:29727" || j.comment.key != "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0E" || j.comment.dir != "/tmp/gputrain-31-QlvNOt" || j.comment.Owner != "host/1/2" || j.comment.Lease != 15*time.Minute {
		t.Errorf("%+v", j.comment)
	}
	if j := jobs["32"]; j.state != "PENDING" || j.reason != "Resources" || j.comment.Rank != 1 || j.comment.addr != "" {
		t.Errorf("%+v", j)
	}
	if j := jobs["33"]; j.comment.Pool != "p1" || j.comment.Rank != 2 || j.comment.Owner != "" { // a site's own comment
		t.Errorf("%+v", j)
	}
	for _, out := range []string{"what is this", "1" + separator + "2", "x" + strings.Repeat(separator+"x", 13)} {
		if _, err := parseQueue(out); err == nil {
			t.Errorf("%q is read", out)
		}
	}
	if jobs, err := parseQueue("\nCLUSTER: other\n"); err != nil || len(jobs) > 0 {
		t.Errorf("nothing: %v, %v", jobs, err)
	}
}

func TestHistory(t *testing.T) {
	got, err := parseHistory("12|CANCELLED by 2001|0:15|None|1795763850\n13|FAILED|1:0|None|1795763850\n13|COMPLETED|0:0|None|1795763860\n")
	if err != nil || !isOver(got["12"].state) || got["13"].state != "COMPLETED" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseHistory("something else\n"); err == nil {
		t.Error("an odd answer is read")
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("gpu:a100:2(S:0-1),shard:4")
	f.Add("NodeName=c1 Arch=x86_64 Gres=gpu:2 CfgTRES=cpu=8 AllocTRES=")
	f.Add("1" + strings.Repeat(separator+"x", 13))
	f.Add("gputrain/1 pool=p1 rank=0 addr=[::1]:22 key=ssh-ed25519,AAAA dir=/tmp/x tag:a%20b=c")
	f.Add("1-00:00:00")
	f.Add("12|CANCELLED by 2001|0:15|None|17\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, g := range append(parseGRES(text), parseTRES(text)...) {
			if g.count < 0 {
				t.Errorf("%+v", g)
			}
		}
		if d := parseLimit(text); d < 0 {
			t.Errorf("a limit of %v", d)
		}
		parseMemory(text)
		parseRecords(text, "NodeName")
		parseNodes(text, text)
		parsePartitions(text)
		parseConfig(text)
		parseHistory(text)
		parseInstanceType(text)
		if jobs, err := parseQueue(text); err == nil {
			for _, j := range jobs {
				if j.comment.Pool == "" {
					t.Errorf("%+v", j)
				}
			}
		}
		c := parseComment("gputrain-p1-0", text)
		if again := parseComment("gputrain-p1-0", c.whole()); c.Owner != "" && !reflect.DeepEqual(c, again) {
			t.Errorf("%+v is read again as %+v", c, again)
		}
		parseAnswers("m", text, 2)
	})
}
