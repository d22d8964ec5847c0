package tensordock

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

var rtx4090 = gputrain.Spec{Accelerator: accelerators.RTX4090()}

// still returns a fake whose machines do not run.
func still(t testing.TB) *fake {
	f := startFake(t)
	f.noMachines = true
	return f
}

// The API answers the same call in three shapes.
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, s := range []shape{flat, wrapped, deep} {
		f := still(t)
		f.shape = s
		d := cloudtest.Open(t, f.config())
		in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 3)
		other := cloudtest.MustLaunch(t, d, rtx4090.Query(), 4)
		f.set(in.ID, row{"ipAddress": "203.0.113.10", "portForwards": []row{{"internal_port": 22, "external_port": 22022}}})
		for range 2 {
			now, err := d.Describe(t.Context(), in.ID, other.ID)
			if err != nil || now[0].State != driver.InstanceRunning || now[0].SSH.Addr != "203.0.113.10:22022" || now[0].SSH.User != "root" || now[0].Name != "p1-3" {
				t.Errorf("%v: %+v, %v", s, now, err)
			}
			if alone := cloudtest.Describe(t, d, in.ID); alone.SSH.Addr != "203.0.113.10:22022" {
				t.Errorf("%v: %+v", s, alone)
			}
			f.Do(func() { f.thinList = true }) // now each machine is read by its ID
		}
		if list, err := d.List(t.Context(), ""); err != nil || len(list) != 2 {
			t.Errorf("%v: %+v, %v", s, list, err)
		}
		if err := d.Terminate(t.Context(), in.ID, other.ID); err != nil || len(f.everything()) != 0 {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// A list is at the top of an answer, in data, or, as on one of the vendor's pages, in
// data.attributes. The parts of a machine may have an unexpected form.
func TestShapesOfLists(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	instances := `"instances":[{"id":"a","attributes":{"name":"gputrain-p1-0","status":"running","ipAddress":"203.0.113.10","portForwards":[{"internal_port":22,"external_port":22022}],"resources":{"ram_gb":"32","gpus":[]}}}]`
	for _, body := range []string{`{` + instances + `}`, `{"data":{` + instances + `}}`, `{"data":{"type":"list","id":"instances","attributes":{` + instances + `}}}`} {
		f.Inject(fakecloud.Fault{Op: opList, Answer: fakecloud.Reply(200, body)})
		if list, err := d.List(t.Context(), "p1"); err != nil || len(list) != 1 || list[0].ID != "a" || list[0].State != driver.InstanceRunning {
			t.Errorf("%s: %+v, %v", body, list, err)
		}
	}
	f.Inject(fakecloud.Fault{Op: opLocations, Answer: fakecloud.Undescribed(200, row{"locations": f.locations})})
	if all := cloudtest.Offers(t, d, rtx4090.Query()); len(all) == 0 {
		t.Error("no offers")
	}
}

// A machine is the same in every shape.
func FuzzShapes(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","name":"gputrain-p1-0","status":"running","ipAddress":"203.0.113.10","portForwards":[{"internal_port":22,"external_port":22022}],"rateHourly":0.42}`,
		`{"id":"a","attributes":{"status":"queued","ip_address":"203.0.113.10","port_forwards":[]}}`, `{"data":{"data":{"id":"a","rateHourly":"0.4"}}}`, `{"id":"a","data":null}`, `[]`, `null`, `{"data":[]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var plain, inData machine
		if json.Unmarshal([]byte(text), &plain) != nil || plain.ID == "" {
			return
		}
		if err := json.Unmarshal([]byte(`{"data":`+text+`}`), &inData); err != nil || !reflect.DeepEqual(plain, inData) {
			t.Errorf("%+v in data is %+v, %v", plain, inData, err)
		}
	})
}

// A body without any of the shapes is an error, never an empty list.
func TestIncompleteAnswers(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	for _, body := range []string{`{}`, `null`, `"none"`, `{"data":null}`, `{"data":{}}`, `{"data":{"attributes":{}}}`, `{"data":{"instances":null}}`, `{"data":{"instances":{}}}`, `{"data":[null]}`, `{"data":[{"name":"gputrain-p1-0"}]}`, `{"data":"none"}`} {
		f.Inject(fakecloud.Fault{Op: opList, Answer: fakecloud.Reply(200, body)})
		_, err := d.List(t.Context(), "p1")
		cloudtest.Is(t, err, rest.ErrAnswer, "tensordock", "list")
	}
	for _, body := range []string{`{}`, `{"data":{}}`, `{"id":"another","status":"running"}`} {
		f.Inject(fakecloud.Fault{Op: opGet, Answer: fakecloud.Reply(200, body)})
		_, err := d.Describe(t.Context(), in.ID)
		cloudtest.Is(t, err, rest.ErrAnswer, "tensordock", "describe")
	}
	for _, body := range []string{`{}`, `{"data":{"locations":null}}`, `{"data":{"locations":[{"city":"Austin"}]}}`} {
		f.Inject(fakecloud.Fault{Op: opLocations, Answer: fakecloud.Reply(200, body)})
		for _, err := range d.Offers(t.Context(), rtx4090.Query()) {
			cloudtest.Is(t, err, rest.ErrAnswer, "tensordock", "offers")
		}
	}
	f.Inject(fakecloud.Fault{Op: opAuth, Answer: fakecloud.Reply(200, `{}`)})
	_, err := f.config().Open(t.Context())
	cloudtest.Is(t, err, rest.ErrAnswer, "tensordock", "open")
}

// The create call has a port for SSH, cloud_init as an object, the key itself, and the
// requested GPUs.
func TestOrder(t *testing.T) {
	t.Parallel()
	f := still(t)
	attributes := func(change func(*Config)) (o order, sent map[string]any) {
		cfg := f.config()
		change(&cfg)
		cloudtest.MustLaunch(t, cloudtest.Open(t, cfg), rtx4090.Query(), len(f.Records(opCreate)))
		all := f.Records(opCreate)
		var in struct {
			Data struct {
				Attributes json.RawMessage `json:"attributes"`
			} `json:"data"`
		}
		for _, v := range []func() error{
			func() error { return json.Unmarshal([]byte(all[len(all)-1].Body), &in) },
			func() error { return json.Unmarshal(in.Data.Attributes, &o) },
			func() error { return json.Unmarshal(in.Data.Attributes, &sent) },
		} {
			if err := v(); err != nil {
				t.Fatal(err)
			}
		}
		return o, sent
	}
	o, sent := attributes(func(*Config) {})
	if !strings.HasPrefix(o.Name, "gputrain-p1-0-c") || o.Image != imageWithDriver || o.Resources.GPUs["geforcertx4090-pcie-24gb"].Count != 1 || o.Resources.VCPUs != 4 || len(o.Forwards) != 1 || o.Forwards[0] != (forward{Internal: 22}) {
		t.Errorf("%+v", o)
	}
	init, isObject := sent["cloud_init"].(map[string]any)
	if !isObject || len(init["write_files"].([]any)) != 3 || !strings.HasPrefix(o.SSHKey, cloudtest.PoolKey) || o.CloudInit.Files[0].Content != o.SSHKey+"\n" {
		t.Errorf("%v", sent)
	}
	if _, dedicated := sent["useDedicatedIp"]; dedicated {
		t.Errorf("%v", sent)
	}
	for image, want := range map[string]string{"ubuntu2404": "ubuntu2404_ml_everything", "ubuntu2404_base": "ubuntu2404_base", "ubuntu2204": "ubuntu2204"} {
		if o, _ := attributes(func(c *Config) { c.OperatingSystem = image }); o.Image != want {
			t.Errorf("%s is sent as %s, want %s", image, o.Image, want)
		}
	}
	o, sent = attributes(func(c *Config) { c.DedicatedIP, c.SSHUser = true, "user" })
	if _, forwards := sent["port_forwards"]; forwards || !o.Dedicated || o.CloudInit != nil {
		t.Errorf("%v", sent)
	}
}

// The private host key is in the create call, and in no error. Without cloud-init, the first
// contact decides.
func TestHostKey(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	req := cloudtest.Request(t, rtx4090.Query(), cloudtest.Offers(t, d, rtx4090.Query())[0], 0)
	secret := strings.Split(string(req.Nodes[0].HostKey.Private), "\n")[2]
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: refusal(400, "cannot write "+string(req.Nodes[0].HostKey.Private))})
	_, err := d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrInvalid, "tensordock", "launch", secret)
	got, err := d.Launch(t.Context(), req)
	in := cloudtest.One(t, got, err)
	f.set(in.ID, row{"ipAddress": "203.0.113.10", "portForwards": []row{{"internal_port": 22, "external_port": 22022}}})
	if now := cloudtest.Describe(t, d, in.ID); len(now.SSH.HostKeys) != 1 || !strings.HasPrefix(req.Nodes[0].HostKey.Public, now.SSH.HostKeys[0]) {
		t.Errorf("%+v", now.SSH)
	}
	cfg := f.config()
	cfg.SSHUser = "user"
	d = cloudtest.Open(t, cfg)
	if now := cloudtest.Describe(t, d, in.ID); len(now.SSH.HostKeys) != 0 || d.Capabilities().HostKeys != driver.HostKeyFirstContact {
		t.Errorf("%+v", now.SSH)
	}
}

// On a shared address, port 22 is another machine's. On the machine's own address it is right.
func TestPortOfSSH(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	for _, forwards := range [][]row{nil, {{"internal_port": 8888, "external_port": 20001}}, {{"internal_port": 22, "external_port": 0}}} {
		f.set(in.ID, row{"ipAddress": "203.0.113.10", "portForwards": forwards})
		f.Do(func() {
			if r, _ := f.instances.Get(nil, in.ID); forwards == nil {
				delete(r.row, "portForwards")
			}
		})
		if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePending || now.SSH.Addr != "" || now.Ports == nil || now.Ports[22] != "" {
			t.Errorf("%v: %+v", forwards, now)
		}
	}
	cfg := f.config()
	cfg.DedicatedIP, cfg.SSHUser = true, "user"
	f.Do(func() {
		r, _ := f.instances.Get(nil, in.ID)
		delete(r.row, "portForwards")
	})
	if now := cloudtest.Describe(t, cloudtest.Open(t, cfg), in.ID); now.SSH.Addr != "203.0.113.10:22" || now.SSH.User != "user" || now.Ports != nil {
		t.Errorf("%+v", now)
	}
}

// A port of the machine is at another one of its host's address.
func TestPorts(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	f.set(in.ID, row{"ipAddress": "203.0.113.10", "portForwards": []row{{"internal_port": 22, "external_port": 20022}, {"internal_port": 8888, "external_port": 20001}}})
	if now := cloudtest.Describe(t, d, in.ID); len(now.Ports) != 2 || now.Ports[22] != now.SSH.Addr || now.Ports[8888] != "203.0.113.10:20001" {
		t.Errorf("%+v", now)
	}
}

// If the API does not choose a port, the create call names one that a host there has free.
func TestPortOfHost(t *testing.T) {
	t.Parallel()
	f := still(t)
	f.wantPorts = true
	d := cloudtest.Open(t, f.config())
	cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	all := f.Records(opCreate)
	if len(all) != 2 || !strings.Contains(all[1].Body, `"external_port":20022`) {
		t.Errorf("%v", all)
	}
	o := cloudtest.Offers(t, d, driver.Query{Accelerator: accelerators.H100()})
	i := 0
	for i < len(o) && !strings.Contains(o[i].ID, "h100") {
		i++
	}
	_, err := d.Launch(t.Context(), cloudtest.Request(t, driver.Query{}, o[i], 1)) // no host has a free port
	cloudtest.Is(t, err, driver.ErrNoCapacity, "tensordock", "launch")
	for text, want := range map[string]bool{
		"external_port must be between 1 and 65535": true, "Port 20022 is taken": true, "portForwards is invalid": true, "port_forwards[0] is required": true,
		"Image not supported": false, "contact support@tensordock.com": false, "vcpu_count must be even": false,
	} {
		if got := refusesPort(&rest.Error{Status: 400, Message: text}); got != want {
			t.Errorf("%q is about ports: %v", text, got)
		}
	}
}

// A malformed offer rents nothing.
func TestOffersThatAreNone(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	o := cloudtest.Offers(t, d, rtx4090.Query())[0]
	for _, id := range []string{"", "loc-austin", "loc-austin/rtx/1/4/16/x", "loc-austin/rtx/0/4/16/100", "/rtx/1/4/16/100"} {
		o.ID = id
		_, err := d.Launch(t.Context(), cloudtest.Request(t, rtx4090.Query(), o, 0))
		cloudtest.Is(t, err, driver.ErrInvalid, "tensordock", "launch")
	}
	if n := len(f.Records(opCreate)); n != 0 {
		t.Errorf("%d creates", n)
	}
}

// A 404 of the API means that a machine is gone. A page does not, and texts about stock mean
// nothing for a read.
func TestGone(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	for _, page := range []string{"<html>no such page</html>", "404 page not found"} {
		f.Inject(fakecloud.Fault{Op: opDelete, Answer: fakecloud.Reply(404, page)})
		cloudtest.Is(t, d.Terminate(t.Context(), in.ID), driver.ErrUnavailable, "tensordock", "terminate")
	}
	f.Inject(fakecloud.Fault{Op: opDelete, Answer: refusal(400, "Hostnode not found")})
	cloudtest.Is(t, d.Terminate(t.Context(), in.ID), driver.ErrInvalid, "tensordock", "terminate")
	f.Inject(fakecloud.Fault{Op: opDelete, Answer: refusal(400, "the API is unavailable")})
	cloudtest.Is(t, d.Terminate(t.Context(), in.ID), driver.ErrInvalid, "tensordock", "terminate")
	f.Inject(fakecloud.Fault{Op: opDelete, After: true, Answer: refusal(404, "Instance not found")})
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.everything()) != 0 {
		t.Error(err)
	}
	for _, answer := range []fakecloud.Answer{refusal(400, "Instance not found"), fakecloud.Undescribed(404, "")} {
		f.Inject(fakecloud.Fault{Op: opDelete, Answer: answer})
		if err := d.Terminate(t.Context(), in.ID); err != nil {
			t.Error(err)
		}
	}
}
