package gcp

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// begin makes an operation for a request ID.
func (f *fake) begin(c *fakecloud.Call, kind, target string, errors []row, status int) fakecloud.Answer {
	f.lastID++
	name := fmt.Sprintf("operation-%d", f.lastID)
	r := row{"kind": "compute#operation", "name": name, "id": strconv.Itoa(f.lastID), "status": "RUNNING", "operationType": kind, "targetLink": target}
	if zone := c.Vars["zone"]; zone != "" {
		r["zone"] = "https://www.googleapis.com/compute/v1/projects/" + f.project + "/zones/" + zone
	}
	f.ops[name] = &operation{row: r, polls: f.slow, errors: errors, status: status}
	f.requests[c.Query.Get("requestId")] = name
	return fakecloud.Reply(200, maps.Clone(r)) // answers are written while other handlers run
}

// replayed returns the operation of a request ID that was used before.
func (f *fake) replayed(c *fakecloud.Call) (fakecloud.Answer, bool) {
	id := c.Query.Get("requestId")
	if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(id) {
		return fakecloud.GoogleError(400, "invalid", "requestId must be a UUID, on every call that changes something"), true
	}
	name, ok := f.requests[id]
	if !ok {
		return fakecloud.Answer{}, false
	}
	return fakecloud.Reply(200, maps.Clone(f.ops[name].row)), true
}

func (f *fake) poll(c *fakecloud.Call) fakecloud.Answer {
	op := f.ops[c.Vars["operation"]]
	if op == nil || (op.row["zone"] == nil) != (c.Op == opGlobalOp) {
		return notFound("operations/%s", c.Vars["operation"])
	}
	if op.polls--; op.polls <= 0 {
		op.row["status"] = "DONE"
		if op.errors != nil {
			op.row["error"] = row{"errors": op.errors}
			if op.status != 0 {
				op.row["httpErrorStatusCode"] = op.status
			}
		}
	}
	return fakecloud.Reply(200, maps.Clone(op.row))
}

func (f *fake) listOps(c *fakecloud.Call) fakecloud.Answer {
	if c.Query.Get("filter") != `operationType="compute.instances.preempted"` {
		return fakecloud.GoogleError(400, "invalid", "Invalid value for field 'filter'")
	}
	return fakecloud.Reply(200, paged(f, c, "compute#operationList", f.preempted))
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// insert makes an instance, by rules that the API's description does not have.
func (f *fake) insert(c *fakecloud.Call) fakecloud.Answer {
	if a, done := f.replayed(c); done {
		return a
	}
	var in struct {
		Name        string
		MachineType string
		Labels      map[string]string
		Disks       []struct {
			Boot, AutoDelete bool
			InitializeParams struct {
				SourceImage, DiskSizeGb, DiskType string
				Labels                            map[string]string
			}
		}
		NetworkInterfaces []struct {
			Network, Subnetwork, NicType string
			AccessConfigs                []row
		}
		GuestAccelerators []struct {
			AcceleratorType  string
			AcceleratorCount int
		}
		Scheduling struct {
			ProvisioningModel, OnHostMaintenance, InstanceTerminationAction string
			AutomaticRestart                                                *bool
			Preemptible                                                     bool
			MaxRunDuration                                                  *struct{ Seconds string }
		}
		Metadata            struct{ Items []struct{ Key, Value string } }
		ReservationAffinity *struct {
			ConsumeReservationType, Key string
			Values                      []string
		}
	}
	c.Decode(&in)
	zone := c.Vars["zone"]
	id := instanceID(zone, in.Name)
	refuse := func(format string, args ...any) fakecloud.Answer {
		return fakecloud.GoogleError(400, "invalid", fmt.Sprintf(format, args...))
	}
	kind := strings.TrimPrefix(in.MachineType, "zones/"+zone+"/machineTypes/")
	i := slices.IndexFunc(f.zones[zone], func(m row) bool { return m["name"] == kind })
	if i < 0 {
		return notFound("projects/%s/%s", f.project, in.MachineType)
	}
	family := family(kind)
	gpu := f.zones[zone][i]["accelerators"] != nil || len(in.GuestAccelerators) > 0
	s := in.Scheduling
	if len(in.Labels) > 64 || fmt.Sprint(in.Labels) != fmt.Sprint(in.Disks[0].InitializeParams.Labels) {
		return refuse("the labels of the disk are not those of the instance, or there are more than 64")
	}
	for label, value := range in.Labels {
		if !regexp.MustCompile(labelFormat).MatchString(value) || !regexp.MustCompile(labelFormat).MatchString(label) {
			return refuse("label %s=%s", label, value)
		}
	}
	switch {
	case len(in.Disks) != 1 || !in.Disks[0].Boot || !in.Disks[0].AutoDelete:
		return refuse("there is no boot disk that goes with its machine")
	case len(in.NetworkInterfaces) != 1 || in.NetworkInterfaces[0].Network != "global/networks/default":
		return refuse("The referenced network resource cannot be found.")
	case gpu && s.OnHostMaintenance != "TERMINATE":
		return refuse("Instances with guest accelerators do not support live migration.")
	case s.ProvisioningModel == "SPOT" && (s.AutomaticRestart == nil || *s.AutomaticRestart):
		return refuse("Scheduling: automaticRestart must be false for SPOT.")
	case s.MaxRunDuration != nil && s.InstanceTerminationAction == "":
		return refuse("maxRunDuration needs an instanceTerminationAction")
	case s.Preemptible:
		return refuse("preemptible is of the past")
	case len(in.GuestAccelerators) > 0 && family != "n1":
		return refuse("[%s, guestAccelerators] features are not compatible.", kind)
	case (family[0] == 'a' || family[0] == 'g') && in.NetworkInterfaces[0].NicType != "GVNIC":
		return refuse("%s wants GVNIC", kind)
	case strings.Contains(in.Disks[0].InitializeParams.DiskType, "/pd-") == (family == "c4" || family == "a4"):
		return refuse("[%s] cannot be used with this disk type.", kind)
	case !strings.HasPrefix(in.Disks[0].InitializeParams.DiskType, "zones/"+zone+"/diskTypes/"):
		return refuse("diskType is of another zone")
	}
	for _, a := range in.GuestAccelerators {
		name := strings.TrimPrefix(a.AcceleratorType, "projects/"+f.project+"/zones/"+zone+"/acceleratorTypes/")
		if !slices.ContainsFunc(f.gpus[zone], func(g row) bool { return g["name"] == name }) {
			return notFound("%s", a.AcceleratorType)
		}
		if limit, ok := limits[name][a.AcceleratorCount]; !ok || f.zones[zone][i]["guestCpus"].(int) > limit.vcpus {
			return refuse("%d %s do not go with %s", a.AcceleratorCount, name, kind)
		}
	}
	known, smallest := false, 0
	if own, ok := f.ownImage(in.Disks[0].InitializeParams.SourceImage); ok {
		known = true
		smallest, _ = strconv.Atoi(text(own.row["diskSizeGb"]))
	}
	for _, image := range f.families {
		if image["selfLink"] == in.Disks[0].InitializeParams.SourceImage {
			known = true
			smallest, _ = strconv.Atoi(text(image["diskSizeGb"]))
		}
	}
	size, _ := strconv.Atoi(in.Disks[0].InitializeParams.DiskSizeGb)
	if !known && !strings.HasPrefix(in.Disks[0].InitializeParams.SourceImage, "projects/mine/") {
		return notFound("%s", in.Disks[0].InitializeParams.SourceImage)
	}
	if size < smallest {
		return refuse("Requested disk size cannot be smaller than the image size (%d GB)", smallest)
	}
	if _, there := f.instances.Get(nil, id); there {
		return fakecloud.GoogleError(409, "alreadyExists", "The resource 'projects/"+f.project+"/zones/"+zone+"/instances/"+in.Name+"' already exists")
	}
	target := "https://www.googleapis.com/compute/v1/projects/" + f.project + "/zones/" + zone + "/instances/" + in.Name
	switch a := in.ReservationAffinity; {
	case a == nil && s.ProvisioningModel == "RESERVATION_BOUND", s.ProvisioningModel == "RESERVATION_BOUND" && s.InstanceTerminationAction != "DELETE":
		return refuse("RESERVATION_BOUND is for machines of a reservation, which are deleted with it")
	case a == nil:
		if spotOnly.MatchString(kind) && s.ProvisioningModel != "SPOT" {
			return refuse("%s is sold on demand by reservation only", kind)
		}
	case a.ConsumeReservationType != "SPECIFIC_RESERVATION" || a.Key != "compute.googleapis.com/reservation-name" || len(a.Values) != 1 || s.ProvisioningModel == "SPOT":
		return refuse("reservationAffinity %+v with %s", a, s.ProvisioningModel)
	default:
		r := f.reserved[zone+"/"+a.Values[0]]
		switch {
		case r == nil:
			return notFound("projects/%s/zones/%s/reservations/%s", f.project, zone, a.Values[0])
		case r.machineType != kind:
			return refuse("the reservation is of %s", r.machineType)
		case r.room == 0:
			return f.begin(c, "insert", target, f.stockout, f.failStatus)
		}
		r.room--
	}
	for _, metric := range []string{"NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS"} {
		limit, ok := f.quotas[regionOf(zone)][metric]
		if ok && family == "g2" && in.ReservationAffinity == nil && (s.ProvisioningModel == "SPOT") == strings.HasPrefix(metric, "PREEMPTIBLE_") && f.usage(regionOf(zone), metric) >= limit {
			return f.begin(c, "insert", target, []row{{"code": "QUOTA_EXCEEDED", "message": "Quota '" + metric + "' exceeded."}}, 403)
		}
	}
	if f.room == 0 || zone == f.emptyZone {
		return f.begin(c, "insert", target, f.stockout, f.failStatus)
	}
	f.room--
	f.put(c, zone, in.Name, c.Input.(row))
	return f.begin(c, "insert", target, nil, 0)
}

// put makes an instance from an insert's body.
func (f *fake) put(c *fakecloud.Call, zone, name string, asked row) *vm {
	f.lastID++
	v := &vm{row: maps.Clone(asked), at: time.Now()}
	maps.Copy(v.row, row{
		"kind": "compute#instance", "id": strconv.Itoa(f.lastID), "name": name, "status": f.status, "labelFingerprint": "MDEyMw==",
		"creationTimestamp": time.Now().Format(time.RFC3339), "zone": "https://www.googleapis.com/compute/v1/projects/" + f.project + "/zones/" + zone,
	})
	card := row{"name": "nic0", "networkIP": fmt.Sprintf("10.128.0.%d", f.lastID%250+2)}
	metadata := map[string]string{}
	if m, ok := asked["metadata"].(row); ok {
		for _, item := range m["items"].([]any) {
			metadata[text(item.(row)["key"])] = text(item.(row)["value"])
		}
	}
	user, key, _ := strings.Cut(metadata["ssh-keys"], ":")
	if !f.noMachines && metadata["enable-oslogin"] == "FALSE" && key != "" {
		env := []string{"GCE_METADATA_HOST=" + f.metadataURL}
		v.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: key, User: user, Env: env, Disk: f.diskOf(asked)})
		card["networkIP"] = v.machine.PublicIP
		card["accessConfigs"] = []row{{"name": "External NAT", "natIP": v.machine.PublicIP}}
		if f.runScripts {
			f.runScript(v.machine, metadata["startup-script"], env)
		}
	}
	if f.noAddress {
		delete(card, "accessConfigs")
	}
	v.row["networkInterfaces"] = []row{card}
	f.instances.Put(c, instanceID(zone, name), v)
	return v
}

func (f *fake) get(c *fakecloud.Call) fakecloud.Answer {
	v, ok := f.instances.Get(c, instanceID(c.Vars["zone"], c.Vars["instance"]))
	if !ok {
		return notFound("projects/%s/zones/%s/instances/%s", f.project, c.Vars["zone"], c.Vars["instance"])
	}
	return f.described(v.row["status"], maps.Clone(v.row))
}

// described answers by the contract, unless the status is one that the contract does not have.
func (f *fake) described(status any, body row) fakecloud.Answer {
	if status == "HIBERNATING" {
		return fakecloud.Undescribed(200, body)
	}
	return fakecloud.Reply(200, body)
}

var labelFilter = regexp.MustCompile(`^labels\.([a-z-]+)=(\S+)$`)

// scopes answers an aggregated list.
func (f *fake) scopes(c *fakecloud.Call, kind, field string, found map[string][]row) fakecloud.Answer {
	type pair struct {
		zone string
		row  row
	}
	var all []pair
	for _, zone := range slices.Sorted(maps.Keys(found)) {
		for _, r := range found[zone] {
			all = append(all, pair{zone, r})
		}
	}
	page := paged(f, c, kind, all)
	items := row{}
	for zone := range f.zones {
		items["zones/"+zone] = row{"warning": row{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope 'zones/" + zone + "' on this page."}}
	}
	odd := false
	for _, p := range page["items"].([]pair) {
		s, _ := items["zones/"+p.zone].(row)
		list, _ := s[field].([]row)
		items["zones/"+p.zone] = row{field: append(list, p.row)}
		odd = odd || p.row["status"] == "HIBERNATING"
	}
	for zone, warning := range f.warnings {
		items["zones/"+zone] = row{"warning": warning}
	}
	page["items"] = items
	if f.unreachable != nil {
		page["unreachables"] = f.unreachable
	}
	if odd {
		return f.described("HIBERNATING", page)
	}
	return fakecloud.Reply(200, page)
}

func labelled(c *fakecloud.Call, labels any) bool {
	m := labelFilter.FindStringSubmatch(c.Query.Get("filter"))
	if m == nil {
		return false // the API rejects other filters
	}
	switch have := labels.(type) {
	case row:
		return text(have[m[1]]) == m[2]
	case map[string]string:
		return have[m[1]] == m[2]
	}
	return false
}

func (f *fake) all(c *fakecloud.Call) fakecloud.Answer {
	found := map[string][]row{}
	for _, v := range f.instances.All(c) {
		if labelled(c, v.row["labels"]) {
			zone := last(text(v.row["zone"]))
			found[zone] = append(found[zone], maps.Clone(v.row))
		}
	}
	return f.scopes(c, "compute#instanceAggregatedList", "instances", found)
}

func (f *fake) listDisks(c *fakecloud.Call) fakecloud.Answer {
	found := map[string][]row{}
	for _, d := range f.disks.All(c) {
		if labelled(c, d["labels"]) {
			zone := last(text(d["zone"]))
			found[zone] = append(found[zone], d)
		}
	}
	return f.scopes(c, "compute#diskAggregatedList", "disks", found)
}

func (f *fake) deleteDisk(c *fakecloud.Call) fakecloud.Answer {
	if a, done := f.replayed(c); done {
		return a
	}
	if !f.disks.Delete(c, instanceID(c.Vars["zone"], c.Vars["disk"])) {
		return notFound("disks/%s", c.Vars["disk"])
	}
	return f.begin(c, "delete", "disks/"+c.Vars["disk"], nil, 0)
}

func (f *fake) delete(c *fakecloud.Call) fakecloud.Answer {
	bySelf := f.selfDelete && c.Header.Get("Authorization") == "Bearer "+testToken && c.Query.Get("requestId") == "" // the request ID is optional
	if a, done := f.replayed(c); done && !bySelf {
		return a
	}
	if c.Missing() || !c.Undone() && !f.end(c, instanceID(c.Vars["zone"], c.Vars["instance"])) {
		return notFound("projects/%s/zones/%s/instances/%s", f.project, c.Vars["zone"], c.Vars["instance"])
	}
	return f.begin(c, "delete", "", nil, 0)
}

func (f *fake) end(c *fakecloud.Call, id string) bool {
	if v, ok := f.instances.Get(nil, id); ok && v.machine != nil {
		// Not in this handler: the machine that asks to be deleted is one of those that Kill ends.
		go v.machine.Kill()
	}
	return f.instances.Delete(c, id)
}

// preempt takes an instance back, as Google does.
func (f *fake) preempt(id string) {
	f.Do(func() {
		zone, name, _ := parseID(id)
		f.preempted = append(f.preempted, row{
			"kind": "compute#operation", "name": "systemevent-1", "operationType": "compute.instances.preempted", "status": "DONE",
			"targetLink": "https://www.googleapis.com/compute/v1/projects/" + f.project + "/zones/" + zone + "/instances/" + name,
		})
		f.end(nil, id)
	})
}

func (f *fake) setLabels(c *fakecloud.Call) fakecloud.Answer {
	if a, done := f.replayed(c); done {
		return a
	}
	var in struct {
		Labels           map[string]string
		LabelFingerprint string
	}
	c.Decode(&in)
	v, ok := f.instances.Get(nil, instanceID(c.Vars["zone"], c.Vars["instance"]))
	if !ok {
		return notFound("instances/%s", c.Vars["instance"])
	}
	if in.LabelFingerprint != v.row["labelFingerprint"] {
		return fakecloud.GoogleError(412, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")
	}
	labels := row{}
	for k, l := range in.Labels {
		labels[k] = l
	}
	v.row["labels"] = labels
	return f.begin(c, "setLabels", "", nil, 0)
}

func (f *fake) keys(c *fakecloud.Call) fakecloud.Answer {
	v, ok := f.instances.Get(nil, instanceID(c.Vars["zone"], c.Vars["instance"]))
	if !ok || f.silent || time.Since(v.at) < f.bootAfter || c.Query.Get("queryPath") != "hostkeys/" {
		return notFound("hostkeys/")
	}
	items := []row{}
	if v.machine != nil {
		kind, key, _ := strings.Cut(v.machine.HostKey, " ")
		items = append(items, row{"namespace": "hostkeys", "key": kind, "value": strings.Fields(key)[0]})
	}
	return fakecloud.Reply(200, row{"kind": "compute#guestAttributes", "queryPath": "hostkeys/", "queryValue": row{"items": items}})
}
