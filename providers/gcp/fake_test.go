package gcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// The operations, with the contract's names.
const (
	opInsert    = "compute.instances.insert"
	opGet       = "compute.instances.get"
	opAll       = "compute.instances.aggregatedList"
	opDelete    = "compute.instances.delete"
	opLabels    = "compute.instances.setLabels"
	opKeys      = "compute.instances.getGuestAttributes"
	opTypes     = "compute.machineTypes.list"
	opGPUs      = "compute.acceleratorTypes.list"
	opFamily    = "compute.images.getFromFamily"
	opRegion    = "compute.regions.get"
	opRegions   = "compute.regions.list"
	opProject   = "compute.projects.get"
	opAddRule   = "compute.firewalls.insert"
	opRule      = "compute.firewalls.get"
	opRules     = "compute.firewalls.list"
	opDelRule   = "compute.firewalls.delete"
	opZoneOp    = "compute.zoneOperations.get"
	opZoneOps   = "compute.zoneOperations.list"
	opGlobalOp  = "compute.globalOperations.get"
	opDisks     = "compute.disks.aggregatedList"
	opDelDisk   = "compute.disks.delete"
	opSKUs      = "GET " + computeService
	opToken     = "POST /token"
	testZone    = "us-central1-a"
	otherZone   = "us-central1-b"
	testToken   = "ya29.a-token-of-the-fake"
	gpuImage    = "https://www.googleapis.com/compute/v1/projects/deeplearning-platform-release/global/images/common-cu129-v20261001"
	plainImage  = "https://www.googleapis.com/compute/v1/projects/ubuntu-os-cloud/global/images/ubuntu-2404-v20261001"
	minImageGB  = 50
	labelFormat = `^[a-z0-9_-]{0,63}$`
)

type row = map[string]any

// A fake is Compute Engine with its quirks. Only its handlers and functions passed to
// Do may touch its fields.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	project   string
	instances *fakecloud.Store[*vm]
	rules     *fakecloud.Store[row]
	disks     *fakecloud.Store[row]
	images    *fakecloud.Store[*fakeImage]
	ops       map[string]*operation
	requests  map[string]string // names of operations, by requestId
	preempted []row
	zones     map[string][]row // machine types
	gpus      map[string][]row // accelerator types
	families  map[string]row
	skus      []row
	quotas    map[string]map[string]float64 // limits by metric, of regions and, for "", of the project
	granted   map[string]bool               // the caller's permissions; nil means all
	used      map[string]bool               // the permissions that were needed and granted
	reserved  map[string]*fakeReservation   // by zone and name

	room        int           // how many machines may start; negative means any number
	stockout    []row         // errors of an operation that finds no capacity
	failStatus  int           // that operation's httpErrorStatusCode; 0 means none
	status      string        // of a new instance
	bootAfter   time.Duration // from an insert until the guest agent publishes the host keys
	noAddress   bool
	noMachines  bool // instances are only rows, with no machine behind them
	silent      bool // the guest agent publishes nothing
	slow        int  // polls until an operation is done
	warnings    map[string]row
	unreachable []string
	pageSize    int
	lastID      int
	runScripts  bool
	tokens      bool   // calls need a token
	emptyZone   string // a zone without capacity
	selfDelete  bool   // machines delete themselves by curl, without a requestId
	metadataURL string // host:port, for scripts on the machines
	imageDelay  int    // for how many answers a new image is pending
	imageFails  bool   // images are not made
	imageQuota  bool   // the project may have no more images
}

// A vm is an instance and the machine behind it.
type vm struct {
	row     row
	machine *fakecloud.Machine
	at      time.Time
}

// An operation is done after some polls.
type operation struct {
	row    row
	polls  int
	errors []row
	status int
}

var projects atomic.Int64

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{
		t: t, project: fmt.Sprintf("test-project-%d", projects.Add(1)), ops: map[string]*operation{}, requests: map[string]string{},
		room: -1, failStatus: 503, status: "RUNNING", slow: 1, pageSize: 500, warnings: map[string]row{}, lastID: 4711,
		zones: map[string][]row{testZone: machineTypes(), otherZone: machineTypes()}, skus: testSKUs(),
		quotas: map[string]map[string]float64{}, used: map[string]bool{}, reserved: map[string]*fakeReservation{},
		gpus: map[string][]row{testZone: acceleratorTypes(), otherZone: {}},
		families: map[string]row{
			"deeplearning-platform-release/common-cu129-ubuntu-2404-nvidia-580": {"selfLink": gpuImage, "diskSizeGb": strconv.Itoa(minImageGB)},
			"ubuntu-os-cloud/ubuntu-2404-lts-amd64":                             {"selfLink": plainImage, "diskSizeGb": "10"},
			"ubuntu-os-cloud/ubuntu-2404-lts-arm64":                             {"selfLink": plainImage + "-arm64", "diskSizeGb": "10"},
		},
		stockout: []row{{"code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "message": "The zone does not have enough resources available to fulfill the request."}},
	}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json"), fakecloud.Unchecked(opSKUs, opToken)},
		Authorized:   func(c *fakecloud.Call) bool { return f.allowed(c) },
		Public:       []string{opToken},
		Unauthorized: fakecloud.GoogleError(401, "authError", "Request had invalid authentication credentials."),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return fakecloud.GoogleError(status, "invalid", complaint)
		},
	})
	f.instances, f.rules, f.disks = fakecloud.NewStore[*vm](f.Server), fakecloud.NewStore[row](f.Server), fakecloud.NewStore[row](f.Server)
	f.images = fakecloud.NewStore[*fakeImage](f.Server)
	for op, h := range map[string]fakecloud.Handler{
		opMakeImage: f.makeImage, opImage: f.image, opImages: f.listImages, opLabelImage: f.labelImage, opDelImage: f.deleteImage,
		opInsert: f.insert, opGet: f.get, opAll: f.all, opDelete: f.delete, opLabels: f.setLabels, opKeys: f.keys,
		opTypes:  func(c *fakecloud.Call) fakecloud.Answer { return f.catalog(c, "compute#machineTypeList", f.zones) },
		opGPUs:   func(c *fakecloud.Call) fakecloud.Answer { return f.catalog(c, "compute#acceleratorTypeList", f.gpus) },
		opFamily: f.family, opRegion: f.region, opRegions: f.regions, opProject: f.aboutProject,
		opAddRule: f.addRule, opRule: f.rule, opRules: f.listRules, opDelRule: f.deleteRule,
		opZoneOp: f.poll, opGlobalOp: f.poll, opZoneOps: f.listOps, opDisks: f.listDisks, opDelDisk: f.deleteDisk,
		opSKUs: f.listSKUs, opToken: f.token,
	} {
		f.Handle(op, func(c *fakecloud.Call) fakecloud.Answer {
			for _, p := range permissions(c) {
				if f.granted != nil && !f.granted[p] {
					return fakecloud.GoogleError(403, "forbidden", "Required '"+p+"' permission for 'projects/"+f.project+"'")
				}
				f.used[p] = true
			}
			return h(c)
		})
	}
	return f
}

// allowed lets in calls with the fake's token. Unless tokens is set, it also lets in
// calls without a token, as a proxy does that signs calls itself.
func (f *fake) allowed(c *fakecloud.Call) bool {
	given := c.Header.Get("Authorization")
	return given == "Bearer "+testToken || given == "" && !f.tokens
}

// A fakeReservation has room for machines of one type.
type fakeReservation struct {
	machineType string
	room        int
}

// permissions returns what a call needs.
func permissions(c *fakecloud.Call) []string {
	all := map[string]string{
		opInsert: "instances.create disks.create subnetworks.use instances.setMetadata instances.setTags instances.setLabels disks.setLabels",
		opGet:    "instances.get", opAll: "instances.list", opDelete: "instances.delete", opLabels: "instances.setLabels", opKeys: "instances.getGuestAttributes",
		opTypes: "machineTypes.list", opGPUs: "acceleratorTypes.list", opRegion: "regions.get", opRegions: "regions.list", opProject: "projects.get",
		opAddRule: "firewalls.create networks.updatePolicy", opRule: "firewalls.get", opRules: "firewalls.list", opDelRule: "firewalls.delete networks.updatePolicy",
		opZoneOp: "zoneOperations.get", opZoneOps: "zoneOperations.list", opGlobalOp: "globalOperations.get", opDisks: "disks.list", opDelDisk: "disks.delete",
		opMakeImage: "images.create images.setLabels disks.useReadOnly", opImage: "images.get", opImages: "images.list", opLabelImage: "images.setLabels", opDelImage: "images.delete",
	}[c.Op]
	var needs []string
	for p := range strings.FieldsSeq(all) {
		needs = append(needs, "compute."+p)
	}
	if in, ok := c.Input.(row); ok && c.Op == opInsert {
		if strings.Contains(string(c.Body), `"projects/test-project-`) && strings.Contains(string(c.Body), "/global/images/gputrain-baked-") {
			needs = append(needs, "compute.images.useReadOnly")
		}
		if in["serviceAccounts"] != nil {
			needs = append(needs, "compute.instances.setServiceAccount", "iam.serviceAccounts.actAs")
		}
		if strings.Contains(string(c.Body), "accessConfigs") {
			needs = append(needs, "compute.subnetworks.useExternalIp")
		}
	}
	return needs
}

// paged returns one page of a list.
func paged[T any](f *fake, c *fakecloud.Call, kind string, all []T) row {
	from, _ := strconv.Atoi(c.Query.Get("pageToken"))
	size := f.pageSize
	if most, err := strconv.Atoi(c.Query.Get("maxResults")); err == nil {
		size = min(size, most)
	}
	out := row{"kind": kind, "items": append([]T{}, all[min(from, len(all)):min(from+size, len(all))]...)}
	if from+size < len(all) {
		out["nextPageToken"] = strconv.Itoa(from + size)
	}
	return out
}

func notFound(what string, args ...any) fakecloud.Answer {
	return fakecloud.GoogleError(404, "notFound", "The resource '"+fmt.Sprintf(what, args...)+"' was not found")
}

func (f *fake) addRule(c *fakecloud.Call) fakecloud.Answer {
	if a, done := f.replayed(c); done {
		return a
	}
	in := maps.Clone(c.Input.(row))
	name := text(in["name"])
	if in["network"] != "projects/"+f.project+"/global/networks/default" {
		return notFound("%v", in["network"])
	}
	if len(text(in["description"])) > 2048 {
		return fakecloud.GoogleError(400, "invalid", "description")
	}
	if _, there := f.rules.Get(nil, name); there {
		return fakecloud.GoogleError(409, "alreadyExists", "The resource 'projects/"+f.project+"/global/firewalls/"+name+"' already exists")
	}
	in["kind"], in["creationTimestamp"] = "compute#firewall", time.Now().Format(time.RFC3339)
	f.rules.Put(c, name, in)
	return f.begin(c, "insert", "", nil, 0)
}

func (f *fake) rule(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.rules.Get(c, c.Vars["firewall"])
	if !ok {
		return notFound("projects/%s/global/firewalls/%s", f.project, c.Vars["firewall"])
	}
	return fakecloud.Reply(200, r)
}

func (f *fake) listRules(c *fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, paged(f, c, "compute#firewallList", f.rules.All(c)))
}

func (f *fake) deleteRule(c *fakecloud.Call) fakecloud.Answer {
	if a, done := f.replayed(c); done {
		return a
	}
	if !f.rules.Delete(c, c.Vars["firewall"]) {
		return notFound("projects/%s/global/firewalls/%s", f.project, c.Vars["firewall"])
	}
	return f.begin(c, "delete", "", nil, 0)
}

// token gives out a token if the assertion is signed with the service account's key.
func (f *fake) token(c *fakecloud.Call) fakecloud.Answer {
	form, err := parseForm(c.Body)
	if err != nil || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || !isSigned(form.Get("assertion"), f.URL+"/token") {
		return fakecloud.Reply(http.StatusBadRequest, row{"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
	}
	return fakecloud.Reply(200, row{"access_token": testToken, "token_type": "Bearer", "expires_in": 3599})
}

// set changes fields of an instance.
func (f *fake) set(id string, changed row) {
	f.t.Helper()
	f.Do(func() {
		v, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Fatalf("there is no instance %s", id)
		}
		maps.Copy(v.row, changed)
	})
}

// live returns the names of all resources in the project.
func (f *fake) live() (all []string) {
	f.Do(func() {
		for _, v := range f.instances.All(nil) {
			all = append(all, "instance "+text(v.row["name"]))
		}
		for _, r := range f.rules.All(nil) {
			all = append(all, "firewall "+text(r["name"]))
		}
		for _, d := range f.disks.All(nil) {
			all = append(all, "disk "+text(d["name"]))
		}
		for _, i := range f.images.All(nil) {
			all = append(all, "image "+text(i.row["name"]))
		}
	})
	return all
}

// asked returns the body of the last insert.
func (f *fake) asked() row {
	f.t.Helper()
	records := f.Records(opInsert)
	if len(records) == 0 {
		f.t.Fatal("nothing was inserted")
	}
	in := row{}
	if err := json.Unmarshal([]byte(records[len(records)-1].Body), &in); err != nil {
		f.t.Fatal(err)
	}
	return in
}
