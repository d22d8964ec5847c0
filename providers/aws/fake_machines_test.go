package aws

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

func (f *fake) createTags(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Resources []string
		Tags      []tagRow
	}
	c.Decode(&in)
	if a, ok := f.amis.Get(nil, in.Resources[0]); ok && len(in.Resources) == 1 {
		a.row["Tags"] = append(rowTags(a.row), in.Tags...)
		return fakecloud.Reply(200, nil)
	}
	if unknown := f.unknown(c, in.Resources); len(unknown) > 0 {
		return refused("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(unknown, ", "))
	}
	for _, id := range in.Resources {
		r, _ := f.instances.Get(nil, id)
		tags := slices.DeleteFunc(slices.Clone(rowTags(r.row)), func(t tagRow) bool {
			return slices.ContainsFunc(in.Tags, func(n tagRow) bool { return n.Key == t.Key })
		})
		r.row["Tags"] = append(tags, in.Tags...)
	}
	return fakecloud.Reply(200, nil)
}

func (f *fake) unknown(c *fakecloud.Call, ids []string) (all []string) {
	for _, id := range ids {
		if _, ok := f.instances.Get(c, id); !ok {
			all = append(all, id)
		}
	}
	return all
}

// once repeats its first answer to every later call with the same client token.
func (f *fake) once(c *fakecloud.Call, token string, do func() fakecloud.Answer) fakecloud.Answer {
	if token == "" || len(token) > 64 {
		f.t.Errorf("%s: the client token is %q", c.Op, token)
	}
	key := c.Op + " " + token
	if before, ok := f.tokens[key]; ok {
		if before.body != string(c.Body) {
			return refused("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
		}
		return before.answer
	}
	a := do()
	f.tokens[key] = replay{string(c.Body), a}
	return a
}

func (f *fake) createFleet(c *fakecloud.Call) fakecloud.Answer {
	type options struct {
		AllocationStrategy                         string
		SingleInstanceType, SingleAvailabilityZone bool
		MinTargetCapacity                          int
	}
	var in struct {
		tagged
		Type, ClientToken     string
		LaunchTemplateConfigs []struct {
			LaunchTemplateSpecification struct{ LaunchTemplateId, Version string }
			Overrides                   []struct{ SubnetId, InstanceType, MaxPrice string }
		}
		TargetCapacitySpecification struct {
			TotalTargetCapacity       int
			DefaultTargetCapacityType string
		}
		SpotOptions, OnDemandOptions options
	}
	c.Decode(&in)
	f.tagsOf(c, in.TagSpecifications, "fleet")
	if f.noFleets {
		return refused("MaxFleetCountExceeded", "You've reached your quota for the maximum number of fleets.")
	}
	return f.once(c, in.ClientToken, func() fakecloud.Answer {
		for _, o := range []options{in.SpotOptions, in.OnDemandOptions} {
			if o.MinTargetCapacity > 0 && !o.SingleInstanceType && !o.SingleAvailabilityZone {
				return refused("InvalidParameterCombination", "MinTargetCapacity needs SingleInstanceType or SingleAvailabilityZone")
			}
		}
		if in.Type != "instant" || len(in.LaunchTemplateConfigs) != 1 {
			return refused("InvalidParameterValue", "the fake knows instant fleets of one template only")
		}
		t, ok := f.templates.Get(nil, in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateId)
		if !ok {
			return refused("InvalidLaunchTemplateId.NotFound", "The launch template does not exist")
		}
		spot := in.TargetCapacitySpecification.DefaultTargetCapacityType == "spot"
		lifecycle := map[bool]string{true: "spot", false: "on-demand"}[spot]
		var errs, made []row
		for range in.TargetCapacitySpecification.TotalTargetCapacity {
			for _, o := range in.LaunchTemplateConfigs[0].Overrides {
				data := t.data
				data.InstanceType, data.MinCount, data.MaxCount = o.InstanceType, 1, 1
				data.NetworkInterfaces = slices.Clone(data.NetworkInterfaces)
				data.NetworkInterfaces[0].SubnetId = o.SubnetId
				at := row{"Overrides": row{"SubnetId": o.SubnetId, "InstanceType": o.InstanceType}}
				id, code, message := f.start(c, data, spot, o.MaxPrice)
				if code == "" {
					made = append(made, row{"InstanceIds": []string{id}, "InstanceType": o.InstanceType, "Lifecycle": lifecycle, "LaunchTemplateAndOverrides": at})
					break
				}
				errs = append(errs, row{"ErrorCode": code, "ErrorMessage": message, "Lifecycle": lifecycle, "LaunchTemplateAndOverrides": at})
			}
		}
		return fakecloud.Reply(200, row{"FleetId": f.newID("fleet"), "Errors": errs, "Instances": made})
	})
}

func (f *fake) runInstances(c *fakecloud.Call) fakecloud.Answer {
	var in launchData
	c.Decode(&in)
	return f.once(c, in.ClientToken, func() fakecloud.Answer {
		if len(in.NetworkInterfaces) > 0 && (in.SubnetId != "" || len(in.SecurityGroupIds) > 0) {
			return refused("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID may not be specified on the same request")
		}
		if in.MinCount != 1 || in.MaxCount != 1 {
			return refused("InvalidParameterValue", "the fake makes one machine at a time")
		}
		maxPrice := ""
		if in.InstanceMarketOptions != nil {
			maxPrice = in.InstanceMarketOptions.SpotOptions.MaxPrice
		}
		id, code, message := f.start(c, in, in.InstanceMarketOptions != nil && in.InstanceMarketOptions.MarketType == "spot", maxPrice)
		if code != "" {
			return refused(code, "%s", message)
		}
		r, _ := f.instances.Get(nil, id)
		return fakecloud.Reply(200, row{"ReservationId": f.newID("r"), "Instances": []row{f.told(r)}})
	})
}

// start starts a machine, or returns the error code and message if it does not.
func (f *fake) start(c *fakecloud.Call, data launchData, spot bool, maxPrice string) (id, code, message string) {
	zone := ""
	for z, subnet := range testSubnets {
		if subnet == data.NetworkInterfaces[0].SubnetId {
			zone = z
		}
	}
	i := slices.IndexFunc(f.types, func(t fakeType) bool { return t.name == data.InstanceType })
	image, disk, known := f.imageOf(data.ImageId)
	user, err := base64.StdEncoding.DecodeString(data.UserData)
	refuse := func(code, format string, args ...any) (string, string, string) {
		return "", code, fmt.Sprintf(format, args...)
	}
	switch {
	case zone == "":
		return refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", data.NetworkInterfaces[0].SubnetId)
	case i < 0:
		return refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", data.InstanceType)
	case !slices.Contains(f.zonesOf(f.types[i]), zone):
		return refuse("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", data.InstanceType, zone)
	case !known || image["Architecture"] != f.types[i].arch:
		return refuse("InvalidParameterValue", "The architecture of the specified image does not match that of the instance type")
	case err != nil || len(user) > maxUserData:
		return refuse("InvalidUserData.Malformed", "user data of %d bytes: %v", len(user), err)
	case data.InstanceInitiatedShutdownBehavior != "terminate" || data.MetadataOptions.HttpTokens != "required" || !data.NetworkInterfaces[0].AssociatePublicIpAddress:
		f.t.Errorf("the launched machine would outlive its shutdown, give its metadata without a token, or have no address: %+v", data)
	case len(data.BlockDeviceMappings) != 1 || data.BlockDeviceMappings[0].DeviceName != rootOf(image) || !data.BlockDeviceMappings[0].Ebs.DeleteOnTermination,
		data.BlockDeviceMappings[0].Ebs.VolumeSize < image["size"].(int):
		return refuse("InvalidBlockDeviceMapping", "Volume of size %d is smaller than the snapshot", data.BlockDeviceMappings[0].Ebs.VolumeSize)
	}
	for _, g := range data.NetworkInterfaces[0].Groups {
		if _, ok := f.groups.Get(nil, g); !ok {
			return refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", g)
		}
	}
	if name := data.Placement.GroupName; name != "" {
		if _, ok := f.placements.Get(nil, name); !ok || strings.HasPrefix(data.InstanceType, "t3.") {
			return refuse("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown, or not for %s", name, data.InstanceType)
		}
	}
	if data.KeyName != "" && !slices.ContainsFunc(f.keys.All(nil), func(k row) bool { return k["KeyName"] == data.KeyName }) {
		return refuse("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", data.KeyName)
	}
	if arn := data.IamInstanceProfile.Arn; arn != "" {
		p := f.profiles[arn[strings.LastIndexByte(arn, '/')+1:]]
		if p == nil || p.Tries > 0 {
			if p != nil {
				p.Tries--
			}
			return refuse("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN", arn)
		}
	}
	if max, err := strconv.ParseFloat(maxPrice, 64); err == nil && max < f.spotPrice(f.types[i], zone) {
		return refuse("SpotMaxPriceTooLow", "Your Spot request price of %s is lower than the minimum required Spot request fulfillment price", maxPrice)
	}
	if code, message := f.reserve(data, spot, zone); code != "" {
		return "", code, message
	}
	if code := codeOfQuota(data.InstanceType, spot); code != "" && data.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId == "" {
		if limit, ok := f.quotas[code]; ok && f.usedVCPUs(code)+float64(f.types[i].vcpus) > limit {
			return refuse("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %g allows", limit)
		}
	}
	running := 0
	for _, r := range f.instances.All(nil) {
		if s := f.state(r); s == "pending" || s == "running" {
			running++
		}
	}
	if f.room >= 0 && running >= f.room || spot && f.spotRoom == 0 || slices.Contains(f.full, zone) || data.Placement.GroupName != "" && slices.Contains(f.full, "cluster") {
		return refuse("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", data.InstanceType, zone)
	}
	if spot && f.spotRoom > 0 {
		f.spotRoom--
	}
	id = f.newID("i")
	r := &rental{data: data, late: f.lateIP, row: row{
		"InstanceId": id, "InstanceType": data.InstanceType, "Architecture": image["Architecture"], "State": row{"Name": "running", "Code": 16}, "LaunchTime": now(),
		"PrivateIpAddress": fmt.Sprintf("172.31.%d.%d", f.lastID/250, f.lastID%250), "SubnetId": data.NetworkInterfaces[0].SubnetId,
		"Placement": row{"AvailabilityZone": zone, "GroupName": data.Placement.GroupName}, "Tags": f.instanceTags(c, data), "ImageId": data.ImageId,
	}}
	if spot {
		r.row["InstanceLifecycle"], r.row["SpotInstanceRequestId"] = "spot", f.newID("sir")
	}
	if f.stall {
		r.row["State"] = row{"Name": "pending", "Code": 0}
	}
	if !f.noMachines {
		f.boot(r, user, disk)
	}
	f.instances.Put(c, id, r)
	return id, "", ""
}

// reserve takes a machine's place in the reservation that it asks for, or returns the error.
func (f *fake) reserve(data launchData, spot bool, zone string) (code, message string) {
	id, market := data.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId, ""
	if data.InstanceMarketOptions != nil {
		market = data.InstanceMarketOptions.MarketType
	}
	if id == "" {
		if market == "capacity-block" || slices.Equal(f.typeOf(data.InstanceType).usage, []string{"capacity-block"}) {
			return "InvalidParameterCombination", "a capacity block needs a reservation"
		}
		return "", ""
	}
	r, ok := f.reserved[id]
	switch {
	case !ok:
		return "InvalidCapacityReservationId.NotFound", "The capacity reservation " + id + " does not exist"
	case spot || r.block != (market == "capacity-block"):
		return "InvalidParameterCombination", "the market type does not go with the reservation"
	case r.zone != zone || r.instanceType != data.InstanceType:
		return "InvalidParameterValue", "The capacity reservation is of " + r.instanceType + " in " + r.zone
	case r.room == 0:
		return "ReservationCapacityExceeded", "The capacity reservation has no room"
	}
	r.room--
	f.reserved[id] = r
	return "", ""
}

func (f *fake) instanceTags(c *fakecloud.Call, data launchData) []tagRow {
	for _, kind := range []string{"volume", "network-interface"} {
		f.tagsOf(c, data.TagSpecifications, kind)
	}
	return f.tagsOf(c, data.TagSpecifications, "instance")
}

// A cloudConfig is user data as cloud-init reads it.
type cloudConfig struct {
	SSHDeleteKeys     bool              `yaml:"ssh_deletekeys"`
	SSHKeys           map[string]string `yaml:"ssh_keys"`
	SSHAuthorizedKeys []string          `yaml:"ssh_authorized_keys"`
	RunCmd            [][]string        `yaml:"runcmd"`
}

func readCloudConfig(t testing.TB, text string) (c cloudConfig) {
	t.Helper()
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if !strings.HasPrefix(text, "#cloud-config\n") {
		t.Errorf("user data is not cloud-init's: %s", text)
	} else if err := dec.Decode(&c); err != nil {
		t.Errorf("user data: %v: %s", err, text)
	}
	return c
}

// boot starts the machine that user data describes.
func (f *fake) boot(r *rental, user []byte, disk string) {
	c := readCloudConfig(f.t, string(user))
	if len(c.SSHAuthorizedKeys) != 1 || c.SSHKeys["ed25519_private"] == "" || !c.SSHDeleteKeys {
		f.t.Errorf("this user data allows no login, or has no host key")
		return
	}
	r.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: c.SSHAuthorizedKeys[0], HostKey: c.SSHKeys["ed25519_private"], User: "ubuntu", Disk: disk})
	r.row["PublicIpAddress"] = r.machine.PublicIP
	if got := strings.Join(strings.Fields(r.machine.HostKey)[:2], " "); got != c.SSHKeys["ed25519_public"] {
		f.t.Errorf("the host keys in the user data are not a pair: %s, %s", got, c.SSHKeys["ed25519_public"])
	}
}

// state returns an instance's present state. A machine that has shut down is terminated
// after linger.
func (f *fake) state(r *rental) string {
	if r.machine != nil && r.ended.IsZero() {
		if state, why := r.machine.State(); state == fakecloud.Down && why != "killed" {
			f.end(r, "Client.InstanceInitiatedShutdown", "Client.InstanceInitiatedShutdown: Instance initiated shutdown")
		}
	}
	if !r.ended.IsZero() && time.Since(r.ended) > f.linger {
		r.row["State"] = row{"Name": "terminated", "Code": 48}
	}
	return r.row["State"].(row)["Name"].(string)
}

// end shuts an instance down.
func (f *fake) end(r *rental, code, why string) {
	if !r.ended.IsZero() {
		return
	}
	r.ended = time.Now()
	r.row["State"] = row{"Name": "shutting-down", "Code": 32}
	r.row["StateReason"] = row{"Code": code, "Message": why}
	delete(r.row, "PublicIpAddress")
	if r.machine != nil {
		go r.machine.Kill() // not in this handler: the machine that asks to be terminated is one of those that Kill ends
	}
}

// told returns an instance as the API describes it.
func (f *fake) told(r *rental) row {
	f.state(r)
	out := maps.Clone(r.row)
	if r.late > 0 {
		r.late--
		delete(out, "PublicIpAddress")
	}
	return out
}

func (f *fake) describeInstances(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		filters
		InstanceIds []string
		MaxResults  int
	}
	c.Decode(&in)
	if len(in.InstanceIds) > 0 && in.MaxResults > 0 {
		return refused("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	if unknown := f.unknown(c, in.InstanceIds); len(unknown) > 0 {
		return refused("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(unknown, ", "))
	}
	all := []row{}
	odd := ""
	for _, r := range f.instances.All(c) {
		fields := map[string]string{"instance-id": r.row["InstanceId"].(string), "instance-state-name": f.state(r)}
		if !f.passes(c, in.filters, rowTags(r.row), fields) {
			continue
		}
		told := f.told(r)
		if s := told["State"].(row); s["Odd"] != nil { // a state that the model does not have
			odd = s["Odd"].(string)
			told["State"] = row{"Name": "stopping", "Code": 64}
		}
		all = append(all, row{"ReservationId": "r-00000001", "Instances": []row{told}})
	}
	a := paged(c, "Reservations", all, f.listPage)
	if odd == "" {
		return a
	}
	a, err := f.contract.Encode(c, a)
	if err != nil {
		f.t.Error(err)
	}
	return fakecloud.Undescribed(200, strings.ReplaceAll(string(a.Body.([]byte)), "<name>stopping</name>", "<name>"+odd+"</name>"))
}

func (f *fake) terminate(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ InstanceIds []string }
	c.Decode(&in)
	unknown := f.unknown(c, in.InstanceIds)
	if c.Missing() {
		unknown = in.InstanceIds
	}
	if len(unknown) > 0 { // one bad ID makes EC2 reject the whole call
		return refused("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(unknown, ", "))
	}
	all := []row{}
	for _, id := range in.InstanceIds {
		r, _ := f.instances.Get(nil, id)
		before := row{"Name": f.state(r)}
		if c.Undone() {
			all = append(all, row{"InstanceId": id, "PreviousState": before, "CurrentState": row{"Name": "shutting-down"}})
			continue
		}
		f.end(r, "Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")
		all = append(all, row{"InstanceId": id, "PreviousState": before, "CurrentState": row{"Name": f.state(r)}})
	}
	return fakecloud.Reply(200, row{"TerminatingInstances": all})
}
