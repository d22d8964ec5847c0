package runpod

import (
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	xssh "golang.org/x/crypto/ssh"
)

// request returns a launch of nodes by the first offer that matches the spec's accelerator.
func request(t *testing.T, d driver.Driver, spec gputrain.Spec, nodes int) driver.Launch {
	t.Helper()
	all, err := offers(t, d, spec)
	if err != nil {
		t.Fatal(err)
	}
	req := driver.Launch{
		Pool: driver.PoolInfo{ID: "pool-a1b2c3d4", Owner: "host/1/2", Lease: time.Minute, AuthorizedKey: keyPair(t).Public}, Query: spec.Query(), Token: "token",
	}
	for _, o := range all {
		if spec.Accelerator.Matches(o.Accelerator) && (spec.Allocation == driver.Spot) == o.Spot {
			req.Offer = o
			break
		}
	}
	for rank := range nodes {
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: fmt.Sprintf("%s-%d", req.Pool.ID, rank), HostKey: keyPair(t)})
	}
	return req
}

func launchOne(t *testing.T, d driver.Driver, spec gputrain.Spec, spot bool) driver.Instance {
	t.Helper()
	spec.Allocation = driver.OnDemand
	rank := 0
	if spot {
		spec.Allocation, rank = driver.Spot, 1
	}
	req := request(t, d, spec, 1)
	req.Nodes[0].Rank, req.Nodes[0].Name = rank, fmt.Sprintf("%s-%d", req.Pool.ID, rank)
	got, err := d.Launch(t.Context(), req)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	return got[0]
}

func keyPair(t *testing.T) driver.HostKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := xssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return driver.HostKey{Private: driver.Secret(pem.EncodeToMemory(block)), Public: strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))}
}

// sent returns the body of the last request of an operation, or its GraphQL input.
func sent(t *testing.T, f *fake, op string) object {
	t.Helper()
	all := f.Records(op)
	if len(all) == 0 {
		t.Fatalf("no call of %s", op)
	}
	var body object
	if err := json.Unmarshal([]byte(all[len(all)-1].Body), &body); err != nil {
		t.Fatal(err)
	}
	if vars, ok := body["variables"].(object); ok {
		return vars["in"].(object)
	}
	return body
}

// The settings of Config and Spec reach the API, by REST and by GraphQL.
func TestLaunchSends(t *testing.T) {
	f := startFake(t)
	gpu := accelerators.H100(accelerators.Count(2))
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		op     string
		change func(*Config)
		spec   gputrain.Spec
		want   map[string]any // by path
	}{
		{"defaults", opCreate, nil, gputrain.Spec{Accelerator: gpu}, map[string]any{
			"name": "gputrain-pool-a1b2c3d4-0", "image": "nvidia/cuda:12.8.0-cudnn-runtime-ubuntu24.04", "cloud": "SECURE", "disk": 50.0, "ports": `["22/tcp"]`,
			"gpu": `{"count":2,"id":"` + h100 + `","minCudaVersion":"12.8"}`, "mounts": `{"persistent":{"path":"/workspace","size":20}}`,
			"registry": "reg1", "startSsh": true, "dataCenterIds": nil, "globalNetworking": nil, "env.GPUTRAIN_FIRST_DEADLINE": "900", "env.GPUTRAIN_READY_DEADLINE": "300", "env.GPUTRAIN_TAG_POOL": "pool-a1b2c3d4",
			"env.GPUTRAIN_TAG_NODES": "pool-a1b2c3d4-0", "env.GPUTRAIN_TAG_EXPIRES": "2030-01-02T03:04:05Z",
		}},
		{"settings", opCreate, func(c *Config) {
			c.Image, c.MinCUDAVersion, c.ContainerDiskGB, c.VolumeGB, c.VolumeMountPath, c.Ports, c.ProvisionTimeout = "me/x:1", "12.4", 30, 10, "/v", []string{"22/tcp", "8888/http"}, time.Minute
			c.InstanceTimeout = 2 * time.Minute
		}, gputrain.Spec{Accelerator: gpu, DiskGiB: 100, VCPUs: 7, MemoryGiB: 64}, map[string]any{
			"image": "me/x:1", "disk": 108.0, "ports": `["22/tcp","8888/http"]`, "mounts": `{"persistent":{"path":"/v","size":10}}`,
			"gpu":                         `{"count":2,"id":"` + h100 + `","minCudaVersion":"12.4","minRamPerGpu":32,"minVcpuCountPerGpu":4}`,
			"env.GPUTRAIN_FIRST_DEADLINE": "180", "env.GPUTRAIN_READY_DEADLINE": "120",
		}},
		{"no volume, community", opRent, func(c *Config) { c.VolumeGB, c.Cloud, c.Ubuntu = -1, Community, "22.04" }, gputrain.Spec{Accelerator: gpu, Nodes: 2}, map[string]any{
			"volumeInGb": 0.0, "cloudType": "COMMUNITY", "supportPublicIp": true, "terminateAfter": nil, "imageName": "nvidia/cuda:12.8.0-cudnn-runtime-ubuntu22.04",
		}},
		{"network volume", opCreate, nil, gputrain.Spec{Accelerator: gpu, Mounts: []driver.Mount{{Source: "data", Target: "/data"}}}, map[string]any{
			"mounts": `{"network":[{"path":"/data","volumeId":"vol1"}]}`, "dataCenterIds": `["US-TX-3"]`,
		}},
		{"a small disk, by the spec", opCreate, nil, gputrain.Spec{Accelerator: gpu, DiskGiB: 5}, map[string]any{"disk": 6.0}},
		{"a small disk, by Config", opCreate, func(c *Config) { c.ContainerDiskGB = 30 }, gputrain.Spec{Accelerator: gpu, DiskGiB: 5}, map[string]any{"disk": 30.0}},
		{"CUDA of the image", opCreate, func(c *Config) { c.Image = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime" }, gputrain.Spec{Accelerator: gpu}, map[string]any{
			"gpu": `{"count":2,"id":"` + h100 + `","minCudaVersion":"12.4"}`,
		}},
		{"the spec's image", opCreate, nil, gputrain.Spec{Accelerator: gpu, Image: gputrain.Image{Docker: "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"}}, map[string]any{
			"image": "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "gpu": `{"count":2,"id":"` + h100 + `","minCudaVersion":"12.4"}`,
		}},
		{"the spec's image, as spot", opSpot, func(c *Config) { c.DataCenterIDs = []string{"US-TX-3"} }, gputrain.Spec{Accelerator: gpu, Allocation: driver.Spot, Image: gputrain.Image{Docker: "me/train:7-cuda12.4"}}, map[string]any{
			"imageName": "me/train:7-cuda12.4", "minCudaVersion": "12.4",
		}},
		{"an image without a version", opCreate, func(c *Config) { c.Image = "me/train:7" }, gputrain.Spec{Accelerator: gpu}, map[string]any{"gpu": `{"count":2,"id":"` + h100 + `"}`}},
		{"Ubuntu 20.04", opCreate, func(c *Config) { c.Ubuntu = "20.04" }, gputrain.Spec{Accelerator: gpu}, map[string]any{"image": "nvidia/cuda:12.8.0-cudnn-runtime-ubuntu20.04"}},
		{"no registry", opCreate, func(c *Config) { c.RegistryAuth = "none" }, gputrain.Spec{Accelerator: gpu}, map[string]any{"registry": nil}},
		{"AMD", opCreate, nil, gputrain.Spec{Accelerator: accelerators.MI300X(), Nodes: 2}, map[string]any{
			"image": "ubuntu:24.04", "gpu": `{"count":1,"id":"` + amd + `"}`, "globalNetworking": nil,
		}},
		{"CPU", opCreate, nil, gputrain.Spec{VCPUs: 4}, map[string]any{
			"image": "ubuntu:24.04", "cpu": `{"id":"cpu3c","vcpuCount":4}`, "gpu": nil, "mounts": nil, "disk": 20.0,
		}},
		{"networking by itself", opCreate, nil, gputrain.Spec{Accelerator: gpu, Nodes: 2}, map[string]any{"globalNetworking": true, "dataCenterIds": `["US-KS-2","US-TX-3"]`}},
		{"networking by the spec", opCreate, nil, gputrain.Spec{Accelerator: gpu, Nodes: 2, Network: gputrain.NetworkPrivate}, map[string]any{"globalNetworking": true, "dataCenterIds": `["US-KS-2","US-TX-3"]`}},
		{"networking off", opCreate, func(c *Config) { c.GlobalNetworking = NetworkingOff }, gputrain.Spec{Accelerator: gpu, Nodes: 2}, map[string]any{"globalNetworking": nil}},
		{"networking on", opCreate, func(c *Config) { c.GlobalNetworking, c.DataCenterIDs = NetworkingOn, []string{"US-TX-3"} }, gputrain.Spec{Accelerator: gpu}, map[string]any{
			"globalNetworking": true, "dataCenterIds": `["US-TX-3"]`,
		}},
		{"spot", opSpot, func(c *Config) { c.DataCenterIDs, c.BidMultiplier = []string{"US-TX-3"}, 1.5 }, gputrain.Spec{Accelerator: gpu, Allocation: driver.Spot, MemoryGiB: 64, VCPUs: 8, MaxHourlyUSD: 9}, map[string]any{
			"name": "gputrain-pool-a1b2c3d4-0", "bidPerGpu": 2.25, "gpuCount": 2.0, "gpuTypeId": h100, "cloudType": "SECURE", "dataCenterId": "US-TX-3", "countryCode": nil,
			"terminateAfter": "2030-01-02T03:14:05Z", "ports": "22/tcp", "volumeInGb": 20.0, "volumeMountPath": "/workspace", "minMemoryInGb": 64.0, "minVcpuCount": 8.0,
			"containerRegistryAuthId": "reg1", "minCudaVersion": "12.8", "startSsh": true, "supportPublicIp": true, "deployCost": nil, "containerDiskInGb": 50.0,
		}},
		{"spot with a network volume", opSpot, nil, gputrain.Spec{Accelerator: gpu, Allocation: driver.Spot, Mounts: []driver.Mount{{Source: "vol1", Target: "/data"}}}, map[string]any{
			"networkVolumeId": "vol1", "volumeMountPath": "/data", "volumeInGb": 0.0, "dataCenterId": "US-TX-3",
		}},
		{"country", opRent, func(c *Config) { c.CountryCodes, c.MinDownloadMbps, c.MinUploadMbps = []string{"FR"}, 500, 100 }, gputrain.Spec{Accelerator: gpu, MaxHourlyUSD: 9}, map[string]any{
			"countryCode": "FR", "dataCenterId": nil, "minDownload": 500.0, "minUpload": 100.0, "deployCost": 9 - 0.1*70/720.0, "bidPerGpu": nil, "terminateAfter": nil,
		}},
		{"country of the spec", opRent, func(c *Config) { c.Cloud = Community }, gputrain.Spec{Accelerator: gpu, Regions: []string{"FR"}}, map[string]any{"countryCode": "FR", "cloudType": "COMMUNITY"}},
		{"TerminateAfter", opRent, func(c *Config) { c.TerminateAfter = true }, gputrain.Spec{Accelerator: gpu, Nodes: 2}, map[string]any{"terminateAfter": "2030-01-02T03:14:05Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := f.config()
			if tt.change != nil {
				tt.change(&cfg)
			}
			d := open(t, cfg)
			req := request(t, d, tt.spec, 1)
			req.Pool.Expires = expires
			before := len(f.Records(tt.op))
			got, err := d.Launch(t.Context(), req)
			if err != nil || len(got) != 1 || len(f.Records(tt.op)) != before+1 {
				t.Fatal(got, err)
			}
			body := sent(t, f, tt.op)
			for path, want := range tt.want {
				at, in := body, path
				if name, ok := strings.CutPrefix(path, "env."); ok {
					at, in = body["env"].(object), name
				}
				value := at[in]
				switch value.(type) {
				case []any, object:
					b, _ := json.Marshal(value)
					value = string(b)
				}
				if value != want {
					t.Errorf("%s is %v, want %v", path, value, want)
				}
			}
			if err := d.Terminate(t.Context(), got[0].ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// A skewed transport answers by a clock that is ahead.
type skewed struct{ ahead time.Duration }

func (s skewed) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		resp.Header.Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
	}
	return resp, err
}

// terminateAfter is a time of RunPod's clock: with this computer's, an hour's difference would end pods at once.
func TestTerminateAfterByTheAPIsClock(t *testing.T) {
	f := startFake(t)
	expires := time.Now().Add(30 * time.Minute)
	cfg := f.config()
	cfg.TerminateAfter, cfg.HTTPClient = true, &http.Client{Transport: skewed{time.Hour}}
	d := open(t, cfg)
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(2)), Nodes: 2}, 1)
	req.Pool.Expires = expires
	got, err := d.Launch(t.Context(), req)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	text, _ := sent(t, f, opRent)["terminateAfter"].(string)
	at, err := time.Parse(time.RFC3339, text)
	if off := at.Sub(expires.Add(afterTTL + time.Hour)); err != nil || off.Abs() > 10*time.Minute {
		t.Errorf("it is %q, which is %v off (%v)", text, off, err)
	}
	if err := d.Terminate(t.Context(), got[0].ID); err != nil {
		t.Error(err)
	}
}

// Launch and Describe return a pod's real price, and how to connect to it.
func TestLaunchReturns(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100(), Nodes: 3}, 3)
	req.Offer.HourlyUSD = driver.USD(2) // outdated: RunPod charges 2.99
	got, err := d.Launch(t.Context(), req)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	ids := []string{got[0].ID, got[1].ID, got[2].ID}
	described, err := d.Describe(t.Context(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	for rank, in := range got {
		if in.Rank != rank || in.Name != req.Nodes[rank].Name || in.State != driver.InstancePending || in.Offer.ID != req.Offer.ID || fmt.Sprint(in.Offer.Parts) != fmt.Sprint([]driver.PricePart{{Name: "machine", HourlyUSD: 2.99}, {Name: "disk", HourlyUSD: 0.1 * 50 / 720}, {Name: "volume", HourlyUSD: 0.1 * 20 / 720}}) {
			t.Errorf("%+v", in)
		}
		up := described[rank]
		if up.ID != in.ID || up.State != driver.InstanceRunning || up.SSH.User != "root" || up.SSH.HostKeys[0] != req.Nodes[rank].HostKey.Public || !strings.HasPrefix(up.PrivateAddr, "10.1.2.") ||
			up.Labels[labelDataCenter] != "US-KS-2" || up.Offer.Region != "global" || up.Offer.Country != "US" || req.Offer.Country != "" {
			t.Errorf("%+v", up)
		}
	}
}

// Without GraphQL, community pods are created by REST: they may have a public address too.
func TestCommunityWithoutGraphQL(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.Cloud = Community
	d := open(t, cfg)
	for status, body := range map[int]string{410: `{"message":"Gone"}`, 403: `{"errors":[{"message":"Forbidden"}]}`} {
		refused := f.Inject(faultAnswer(opRent, 1, status, body))
		got, err := d.Launch(t.Context(), request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1))
		if err != nil || len(got) != 1 || refused.Hits() != 1 || sent(t, f, opCreate)["cloud"] != "COMMUNITY" {
			t.Fatalf("%d: %v, %v", status, got, err)
		}
		if err := d.Terminate(t.Context(), got[0].ID); err != nil {
			t.Error(err)
		}
	}
}

func TestRegistry(t *testing.T) {
	f := startFake(t)
	spec := gputrain.Spec{Accelerator: accelerators.H100()}
	cfg := f.config()
	cfg.RegistryAuth = "mine"
	d := open(t, cfg)
	wantKind(t, "a credential that is not there", d.Prepare(t.Context(), cloudtest.Info("p1")), driver.ErrNotFound, `"mine"`)
	_, err := d.Launch(t.Context(), request(t, d, spec, 1))
	wantKind(t, "launch", err, driver.ErrNotFound)
	f.Do(func() { f.registries = nil })
	d = open(t, f.config())
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if launchOne(t, d, spec, false); sent(t, f, opCreate)["registry"] != nil {
		t.Error("a credential that is not there was sent")
	}
	f.Inject(faultAnswer("GET /v2/registries", 1, 403, `{"title":"Forbidden","status":403,"detail":"access denied"}`))
	if err := open(t, f.config()).Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Errorf("a key that may not look: %v", err)
	}
}

func TestLaunchRefuses(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	for what, change := range map[string]func(*driver.Launch){
		"offer":    func(r *driver.Launch) { r.Offer.ID = "x" },
		"count":    func(r *driver.Launch) { r.Offer.ID = "individual/secure/spot/global/0/x" },
		"name":     func(r *driver.Launch) { r.Nodes[0].Name = "other-0" },
		"host key": func(r *driver.Launch) { r.Nodes[0].HostKey = driver.HostKey{} },
		"key":      func(r *driver.Launch) { r.Pool.AuthorizedKey = "" },
	} {
		req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)
		change(&req)
		got, err := d.Launch(t.Context(), req)
		wantKind(t, what, err, driver.ErrInvalid)
		if len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
	if _, err := d.Launch(cancelled(t), request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)); err == nil {
		t.Error("a launch whose context has ended went on")
	}
	if live := f.live(); len(live) > 0 {
		t.Error(live)
	}
}
