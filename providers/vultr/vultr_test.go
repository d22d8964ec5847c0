package vultr

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// h100s asks for a server.
var h100s = gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8))}

func l40s() gputrain.Spec { return gputrain.Spec{Accelerator: accelerators.L40S()} }

func metal(f *fake) Config {
	cfg := f.config()
	cfg.Mode = BareMetal
	return cfg
}

func TestCreateRequest(t *testing.T) {
	f := startFake(t)
	in := cloudtest.MustLaunch(t, cloudtest.Prepared(t, f.config()), l40s().Query(), 0)
	server := cloudtest.MustLaunch(t, cloudtest.Prepared(t, metal(f)), h100s.Query(), 1)
	for op, want := range map[string]row{
		opCreate: {"region": "ewr", "plan": "vcg-l40s-16c-180g-48vram", "os_id": 2284.0, "label": "gputrain-p1-0", "hostname": "gputrain-p1-0",
			"backups": "disabled", "enable_ipv6": false, "activation_email": false},
		opMetalCreate: {"region": "ewr", "plan": "vbm-112c-2048gb-8-h100-gpu", "image_id": "docker", "label": "gputrain-p1-1", "hostname": "gputrain-p1-1",
			"enable_ipv6": false, "activation_email": false},
	} {
		sent := f.Records(op)
		if len(sent) != 1 {
			t.Fatalf("%d calls of %s", len(sent), op)
		}
		var got row
		if err := json.Unmarshal([]byte(sent[0].Body), &got); err != nil {
			t.Fatal(err)
		}
		text, err := base64.StdEncoding.DecodeString(fmt.Sprint(got["user_data"]))
		if err != nil || !strings.HasPrefix(string(text), "#cloud-config\n") || !strings.Contains(string(text), `"disable_root":false`) {
			t.Errorf("user data of %s: %q, %v", op, text, err)
		}
		if tags := fmt.Sprint(got["tags"]); !strings.HasPrefix(tags, "[gputrain gputrain-pool-p1 gputrain-node-p1-") {
			t.Errorf("tags of %s: %v", op, tags)
		}
		delete(got, "user_data")
		delete(got, "tags")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n%v, want\n%v", op, got, want)
		}
	}
	if !strings.HasPrefix(server.ID, "metal/") || strings.Contains(in.ID, "/") {
		t.Errorf("IDs %s and %s: they must identify the list of a machine", in.ID, server.ID)
	}
}

func TestImages(t *testing.T) {
	for _, tt := range []struct {
		cfg   Config
		mode  Mode
		os    int
		image string
	}{
		{Config{}, Cloud, 2284, ""}, {Config{}, BareMetal, 0, "docker"},
		{Config{OSID: 1743}, Cloud, 1743, ""}, {Config{OSID: 1743}, BareMetal, 1743, ""},
		{Config{ImageID: "rocm"}, Cloud, 0, "rocm"}, {Config{ImageID: "rocm"}, BareMetal, 0, "rocm"},
	} {
		if os, image := tt.cfg.image(tt.mode); os != tt.os || image != tt.image {
			t.Errorf("%+v on %s: %d, %q", tt.cfg, tt.mode, os, image)
		}
	}
}

// Machines are looked up in both lists, whatever the mode, and identified by their IDs.
func TestBothLists(t *testing.T) {
	f := startFake(t)
	small, big := cloudtest.Prepared(t, f.config()), cloudtest.Prepared(t, metal(f))
	a, b := cloudtest.MustLaunch(t, small, l40s().Query(), 0), cloudtest.MustLaunch(t, big, h100s.Query(), 1)
	for _, d := range []driver.Driver{small, big} {
		all, err := d.List(t.Context(), "p1")
		if err != nil || len(all) != 2 || all[0].ID != a.ID || all[1].ID != b.ID {
			t.Errorf("%+v, %v", all, err)
		}
		for id, node := range map[string]string{a.ID: "p1-0", b.ID: "p1-1"} {
			if in := cloudtest.Describe(t, d, id); in.State != driver.InstanceRunning || in.Name != node {
				t.Errorf("%+v", in)
			}
		}
	}
	if err := small.Terminate(t.Context(), a.ID, b.ID); err != nil || len(f.account()) != 0 {
		t.Errorf("%v; left: %v", err, f.account())
	}
	f.Inject(fakecloud.Fault{Op: opMetalList, Times: -1, Answer: failure(500, "Internal error")})
	if all, err := small.List(t.Context(), ""); err == nil {
		t.Errorf("half of the lists count as all: %v", all)
	}
}

// If the service has lost the tags, the label identifies the machine.
func TestLostTags(t *testing.T) {
	f := startFake(t)
	f.noTags = true
	in := cloudtest.MustLaunch(t, cloudtest.Prepared(t, f.config()), l40s().Query(), 3)
	all, err := cloudtest.Open(t, f.config()).List(t.Context(), "")
	if err != nil || len(all) != 1 || all[0].ID != in.ID || all[0].Pool != "p1" || all[0].Name != "p1-3" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestServerCalledAsTheDescriptionCallsIt(t *testing.T) {
	f := startFake(t)
	f.oldName = true
	in := cloudtest.MustLaunch(t, cloudtest.Prepared(t, metal(f)), h100s.Query(), 0)
	if n := len(f.Records(opMetalList)); in.ID != f.account()[0].ID || n != 0 {
		t.Errorf("%+v; %d lists", in, n)
	}
}

// A create that may have taken effect is not repeated: its machine is looked for by name.
func TestCreateIsNeverRepeated(t *testing.T) {
	for name, answer := range map[string]fakecloud.Answer{
		"failed": failure(500, "Internal error"), "no body": fakecloud.Empty(), "no machine": fakecloud.Reply(202, row{}),
		"no id": fakecloud.Reply(202, row{"instance": row{"label": "gputrain-p1-0"}}), "odd": fakecloud.Reply(202, row{"instance": []int{1}}),
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			f.Inject(fakecloud.Fault{Op: opCreate, After: true, Answer: answer})
			in := cloudtest.MustLaunch(t, cloudtest.Prepared(t, f.config()), l40s().Query(), 0)
			if n := len(f.Records(opCreate)); n != 1 || len(f.account()) != 1 || f.account()[0].ID != in.ID {
				t.Errorf("%d creates; %v", n, f.account())
			}
		})
	}
}

// Ending a server that is being installed is retried, but not for ever.
func TestEndWhileInstalling(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Prepared(t, metal(f))
	in := cloudtest.MustLaunch(t, d, h100s.Query(), 0)
	f.Do(func() { f.busy = endAttempts + 2 })
	err := d.Terminate(t.Context(), in.ID)
	cloudtest.Is(t, err, driver.ErrUnavailable, "vultr", "terminate")
	if e, _ := errors.AsType[*driver.Error](err); e == nil || !strings.Contains(e.Hint, "Reap") || len(f.Records(opMetalEnd)) != endAttempts {
		t.Errorf("%v after %d calls", err, len(f.Records(opMetalEnd)))
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) != 0 {
		t.Errorf("%v; left: %v", err, f.account())
	}
}

// An incomplete list is an error, not a short list.
func TestIncompleteLists(t *testing.T) {
	for name, body := range map[string]row{
		"no list":       {"meta": row{"total": 0, "links": row{"next": ""}}},
		"null":          {"instances": nil, "meta": row{"links": row{"next": ""}}},
		"no meta":       {"instances": []row{}},
		"no id":         {"instances": []row{{"label": "gputrain-p1-0"}}, "meta": row{"links": row{"next": ""}}},
		"round and on":  {"instances": []row{{"id": "a"}}, "meta": row{"links": row{"next": "again"}}},
		"another thing": {"instances": row{}, "meta": row{"links": row{"next": ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			d := cloudtest.Open(t, f.config())
			f.Inject(fakecloud.Fault{Op: opList, Times: -1, Answer: fakecloud.Reply(200, body)})
			_, err := d.List(t.Context(), "")
			cloudtest.Is(t, err, driver.ErrUnavailable, "vultr", "list")
		})
	}
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opShow, Answer: fakecloud.Reply(200, row{"instance": row{"id": "other"}})})
	if in, err := d.Describe(t.Context(), "mine"); err == nil {
		t.Errorf("another's answer is taken: %+v", in)
	}
}

// No error shows the passwords and user data in an answer.
func TestSecretsOfAnswers(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	req := cloudtest.Request(t, l40s().Query(), cloudtest.Offers(t, d, l40s().Query())[0], 0)
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: fakecloud.Reply(202, `{"instance":{"default_password":"`+testPassword+`"`)})
	_, err := d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrUnavailable, "vultr", "launch", testPassword)
	text, _ := cloud.UserData(req.Pool, req.Nodes[0], true, nil)
	data := base64.StdEncoding.EncodeToString([]byte(text))
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(400, "cannot parse "+data)})
	_, err = d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrInvalid, "vultr", "launch", data, data[:200])
	key := strings.Split(string(req.Nodes[0].HostKey.Private), "\n")[2]
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(400, "cannot parse "+text)})
	_, err = d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrInvalid, "vultr", "launch", key)
}

// A 404 means that a machine is gone only if it has the API's own text, not if it is a
// gateway's page.
func TestGone(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, l40s().Query(), 0)
	for _, body := range []any{"<html>no such page</html>", row{"message": "no route"}, ""} {
		f.Inject(fakecloud.Fault{Op: opEnd, Answer: fakecloud.Reply(404, body)})
		cloudtest.Is(t, d.Terminate(t.Context(), in.ID), driver.ErrUnavailable, "vultr", "terminate")
		f.Inject(fakecloud.Fault{Op: opShow, Answer: fakecloud.Reply(404, body)})
		now, err := d.Describe(t.Context(), in.ID)
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%v: %+v, %v", body, now, err)
		}
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) != 0 {
		t.Errorf("%v; left: %v", err, f.account())
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
}

// MarkLease keeps a user's own tags, and skips a machine whose gputrain tags were edited.
func TestMarkLease(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in, edited := cloudtest.MustLaunch(t, d, l40s().Query(), 0), cloudtest.MustLaunch(t, d, l40s().Query(), 1)
	var tags []string
	f.Do(func() {
		r, _ := f.machines[Cloud].Get(nil, in.ID)
		tags = append(slices.Clone(r.row["tags"].([]string)), "cost-centre-7")
	})
	f.set(in.ID, row{"tags": tags})
	f.set(edited.ID, row{"tags": []string{"mine"}})
	until := time.Unix(1_900_000_000, 0)
	if err := d.(driver.LeaseMarker).MarkLease(t.Context(), cloudtest.Info("p1"), until, in.ID, edited.ID, "never", "metal/never"); err != nil {
		t.Error(err)
	}
	changes := f.Records(opChange)
	if len(changes) != 1 || !strings.Contains(changes[0].Body, "cost-centre-7") || !strings.Contains(changes[0].Body, "gputrain-until-1900000000") {
		t.Errorf("%+v", changes)
	}
	now := cloudtest.Describe(t, cloudtest.Open(t, f.config()), in.ID)
	if now.Name != "p1-0" || len(now.SSH.HostKeys) != 1 {
		t.Errorf("%+v", now)
	}
	f.Inject(fakecloud.Fault{Op: opShow, Times: -1, Answer: failure(400, "no")})
	cloudtest.Is(t, d.(driver.LeaseMarker).MarkLease(t.Context(), cloudtest.Info("p1"), until, in.ID), driver.ErrInvalid, "vultr", "mark the lease")
}

// A malformed offer is refused before anything is rented.
func TestOddOffers(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	for _, id := range []string{"", "cloud/ewr", "cloud//x", "cloud/ewr/", "vm/ewr/x", "cloud/ewr/x/y"} {
		_, err := d.Launch(t.Context(), cloudtest.Request(t, l40s().Query(), driver.Offer{ID: id}, 0))
		cloudtest.Is(t, err, driver.ErrInvalid, "vultr", "launch")
	}
	if n := len(f.Records(opCreate, opMetalCreate)); n != 0 {
		t.Errorf("%d creates", n)
	}
}
