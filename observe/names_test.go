package observe

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// full is an event with all that an event can have.
func full() gputrain.Event {
	return gputrain.Event{
		Seq: 1, Time: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), Pool: "p", Kind: gputrain.EventNode, State: "ready", Node: 1,
		At: gputrain.Node{Rank: 1, ID: "i", Ports: map[int]string{7: "a:7"}, Accelerator: accelerators.A100(), VCPUs: 4}, Task: "t0", Name: "n", Attempt: 2,
		Ended: &gputrain.AttemptEnd{Cause: gputrain.CauseExit, ExitCode: 3}, Progress: gputrain.Progress{What: "pull", Done: 1, Total: 2, Unit: "By"},
		Offer: &gputrain.Offer{ID: "o", InstanceType: "x", Accelerator: accelerators.A100(), Warnings: []string{"w"}}, Cost: &gputrain.Cost{},
		Usage: gputrain.Usage{Accelerators: []gputrain.AcceleratorSample{{}}, Host: &gputrain.HostSample{}}, Tally: &gputrain.Tally{},
		Spec: &gputrain.Spec{Nodes: 3, Tags: map[string]string{"team": "x"}},
	}
}

// All names in a file are in camel case, also those of fields of gputrain's own types. A file of before is read as well.
func TestNamesAreCamelCase(t *testing.T) {
	ev := full()
	text, err := json.Marshal(Entry{Seq: 1, Event: &ev})
	if err != nil {
		t.Fatal(err)
	}
	if odd := regexp.MustCompile(`"[A-Z]\w*":`).FindAllString(string(text), -1); odd != nil {
		t.Errorf("%q in %s", odd, text)
	}
	var back Entry
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back.Event.At, ev.At) || !reflect.DeepEqual(back.Event.Ended, ev.Ended) || back.Event.Spec == nil || back.Event.Spec.Nodes != 3 ||
		!reflect.DeepEqual(back.Event.Offer, ev.Offer) || back.Event.Progress != ev.Progress || !reflect.DeepEqual(back.Event.Usage, ev.Usage) {
		t.Errorf("%+v, %v", back.Event, err)
	}
	const before = `{"seq":1,"event":{"seq":1,"time":"2026-11-28T00:00:00Z","kind":"node","state":"ready","node":1,"at":{"Rank":1,"ID":"i","HourlyUSD":1.5,"VCPUs":4},"ended":{"Cause":0,"ExitCode":3},"spec":{"Nodes":3}}}`
	if err := json.Unmarshal([]byte(before), &back); err != nil || back.Event.At.ID != "i" || back.Event.At.VCPUs != 4 || back.Event.Ended.ExitCode != 3 || back.Event.Spec.Nodes != 3 {
		t.Errorf("%+v, %v", back.Event, err)
	}
}
