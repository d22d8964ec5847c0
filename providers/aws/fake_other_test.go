package aws

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// other answers the services that no contract describes: the JSON protocol by the
// header X-Amz-Target, the query protocol by its Action.
func (f *fake) other(c *fakecloud.Call) fakecloud.Answer {
	op := c.Header.Get("X-Amz-Target")
	form, _ := url.ParseQuery(string(c.Body))
	if op == "" {
		op = form.Get("Action")
	} else if c.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		f.t.Errorf("%s: Content-Type %q", op, c.Header.Get("Content-Type"))
	}
	action := map[string]string{
		"AmazonSSM.GetParameter": "ssm:GetParameter", "AWSPriceListService.GetProducts": "pricing:GetProducts",
		"ServiceQuotasV20190624.GetServiceQuota": "servicequotas:GetServiceQuota",
	}[op]
	if action == "" {
		action = "iam:" + op
	}
	if f.denied[op] || op != "GetCallerIdentity" && !f.may(action) {
		if strings.Contains(op, ".") {
			return fakecloud.Reply(400, row{"__type": "AccessDeniedException", "Message": "User is not authorized to perform: " + op})
		}
		return iamError(403, "AccessDenied", "User is not authorized to perform: iam:"+op)
	}
	switch op {
	case "GetCallerIdentity":
		return query(op, "<GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/test</Arn><UserId>AIDATEST</UserId><Account>123456789012</Account></GetCallerIdentityResult>")
	case "AmazonSSM.GetParameter":
		var in struct{ Name string }
		if err := json.Unmarshal(c.Body, &in); err != nil {
			f.t.Error(err)
		}
		id, ok := testParameters[in.Name]
		if !ok || f.noImages {
			return fakecloud.Reply(400, row{"__type": "ParameterNotFound"})
		}
		return fakecloud.Reply(200, row{"Parameter": row{"Name": in.Name, "Type": "String", "Value": id, "Version": 1}})
	case "AWSPriceListService.GetProducts":
		return f.products(c)
	case "ServiceQuotasV20190624.GetServiceQuota":
		return f.quota(c)
	}
	if a, ok := f.iam(op, form); ok {
		return a
	}
	f.t.Errorf("the fake has no operation %q", op)
	return fakecloud.EC2Error(400, "InvalidAction", op)
}

func query(op, result string) fakecloud.Answer {
	return fakecloud.Reply(200, "<"+op+"Response>"+result+"<ResponseMetadata><RequestId>req-1</RequestId></ResponseMetadata></"+op+"Response>").With("Content-Type", "text/xml")
}

func iamError(status int, code, message string) fakecloud.Answer {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(message))
	return fakecloud.Reply(status, "<ErrorResponse><Error><Type>Sender</Type><Code>"+code+"</Code><Message>"+b.String()+"</Message></Error></ErrorResponse>").With("Content-Type", "text/xml")
}

// quota answers for the quotas that the account has.
func (f *fake) quota(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ ServiceCode, QuotaCode string }
	if err := json.Unmarshal(c.Body, &in); err != nil || in.ServiceCode != "ec2" {
		f.t.Errorf("GetServiceQuota: %s, %v", c.Body, err)
	}
	vcpus, ok := f.quotas[in.QuotaCode]
	if !ok {
		return fakecloud.Reply(400, row{"__type": "NoSuchResourceException", "Message": "The request failed because the specified quota does not exist"})
	}
	return fakecloud.Reply(200, row{"Quota": row{"ServiceCode": "ec2", "QuotaCode": in.QuotaCode, "QuotaName": "of the fake", "Value": vcpus, "Unit": "None", "Adjustable": true, "GlobalQuota": false}})
}

// codeOfQuota returns the quota that a machine counts for, or "".
func codeOfQuota(instanceType string, spot bool) string {
	codes := map[byte][2]string{'c': {"L-1216C47A", "L-34B43A08"}, 'm': {"L-1216C47A", "L-34B43A08"}, 'g': {"L-DB2E81BA", "L-3819A6DF"}, 'p': {"L-417A185B", "L-7212CCBC"}}
	codes['t'] = codes['c']
	if strings.HasPrefix(instanceType, "trn") {
		codes['t'] = [2]string{"L-2C3B7624", "L-6B0D517C"}
	}
	if spot {
		return codes[instanceType[0]][1]
	}
	return codes[instanceType[0]][0]
}

// usedVCPUs sums the vCPUs of the machines that count for a quota.
func (f *fake) usedVCPUs(code string) (used float64) {
	for _, r := range f.instances.All(nil) {
		name := r.row["InstanceType"].(string)
		if s := f.state(r); (s == "pending" || s == "running") && codeOfQuota(name, r.row["InstanceLifecycle"] == "spot") == code {
			used += float64(f.typeOf(name).vcpus)
		}
	}
	return used
}

func (f *fake) typeOf(name string) fakeType {
	for _, t := range f.types {
		if t.name == name {
			return t
		}
	}
	return fakeType{}
}

// allow sets all quotas to what is used and more vCPUs.
func (f *fake) allow(vcpus float64) {
	f.Do(func() {
		for _, code := range []string{"L-1216C47A", "L-34B43A08", "L-DB2E81BA", "L-3819A6DF", "L-417A185B", "L-7212CCBC"} {
			f.quotas[code] = f.usedVCPUs(code) + vcpus
		}
	})
}

// products returns two prices a page.
func (f *fake) products(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		ServiceCode, NextToken string
		Filters                []struct{ Type, Field, Value string }
	}
	if err := json.Unmarshal(c.Body, &in); err != nil {
		f.t.Error(err)
	}
	want := map[string]string{}
	for _, flt := range in.Filters {
		want[flt.Field] = flt.Value
	}
	if in.ServiceCode == "AWSDataTransfer" {
		return f.egress(c, want)
	}
	if in.ServiceCode != "AmazonEC2" || want["regionCode"] != "us-east-1" || want["operatingSystem"] != "Linux" || want["tenancy"] != "Shared" ||
		want["preInstalledSw"] != "NA" || want["capacitystatus"] != "Used" {
		f.t.Errorf("GetProducts: %s", c.Body)
	}
	list := []string{}
	for _, t := range f.types {
		if f.unpriced || want["instanceType"] != "" && want["instanceType"] != t.name {
			continue
		}
		text, err := json.Marshal(row{
			"product": row{"attributes": row{"instanceType": t.name}},
			"terms": row{"OnDemand": row{"SKU.JRTCKXETXF": row{"priceDimensions": row{"SKU.JRTCKXETXF.6YS6EN2CT7": row{
				"unit": "Hrs", "pricePerUnit": row{"USD": fmt.Sprintf("%.10f", t.usd)},
			}}}}},
		})
		if err != nil {
			f.t.Error(err)
		}
		list = append(list, string(text))
	}
	from, _ := strconv.Atoi(in.NextToken)
	out := row{"FormatVersion": "aws_v1", "PriceList": list[min(from, len(list)):min(from+2, len(list))]}
	if from+2 < len(list) {
		out["NextToken"] = strconv.Itoa(from + 2)
	}
	return fakecloud.Reply(200, out)
}

// egress returns the prices of traffic to the internet, which are lower for more of it.
func (f *fake) egress(c *fakecloud.Call, want map[string]string) fakecloud.Answer {
	if want["transferType"] != "AWS Outbound" || want["fromRegionCode"] != "us-east-1" || want["toLocation"] != "External" {
		f.t.Errorf("GetProducts: %s", c.Body)
	}
	list := []string{}
	if !f.unpriced {
		list = append(list, `{"product":{"attributes":{"servicecode":"AWSDataTransfer"}},"terms":{"OnDemand":{"SKU.T":{"priceDimensions":{`+
			`"a":{"unit":"GB","beginRange":"10240","pricePerUnit":{"USD":"0.0850000000"}},"b":{"unit":"GB","beginRange":"0","pricePerUnit":{"USD":"0.0900000000"}}}}}}}`)
	}
	return fakecloud.Reply(200, row{"FormatVersion": "aws_v1", "PriceList": list})
}

// iam answers IAM calls. A role and its profile have the same name.
func (f *fake) iam(op string, form url.Values) (a fakecloud.Answer, ok bool) {
	name := form.Get("InstanceProfileName")
	if name == "" {
		name = form.Get("RoleName")
	}
	p := f.profiles[name]
	exists := iamError(409, "EntityAlreadyExists", name+" already exists.")
	none := iamError(404, "NoSuchEntity", "The role or profile "+name+" cannot be found.")
	switch op {
	case "CreateRole":
		if p != nil && p.Role {
			return exists, true
		}
		if p == nil {
			p = &fakeProfile{}
			f.profiles[name] = p
		}
		p.Role = true
	case "CreateInstanceProfile":
		if p == nil {
			p = &fakeProfile{}
			f.profiles[name] = p
		}
		if p.Profile {
			return exists, true
		}
		p.Profile, p.Tries = true, 2
	case "PutRolePolicy":
		if p == nil || !p.Role || !json.Valid([]byte(form.Get("PolicyDocument"))) {
			return none, true
		}
		p.Policy = true
	case "AddRoleToInstanceProfile":
		switch {
		case p == nil || !p.Profile || !p.Role:
			return none, true
		case p.Added:
			return iamError(409, "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1"), true
		}
		p.Added = true
	case "GetInstanceProfile":
		if p == nil || !p.Profile {
			return none, true
		}
		return query(op, "<GetInstanceProfileResult><InstanceProfile>"+profileXML(name)+"</InstanceProfile></GetInstanceProfileResult>"), true
	case "ListInstanceProfiles":
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(f.profiles)) {
			if f.profiles[name].Profile {
				b.WriteString("<member>" + profileXML(name) + "</member>")
			}
		}
		return query(op, "<ListInstanceProfilesResult><InstanceProfiles>"+b.String()+"</InstanceProfiles><IsTruncated>false</IsTruncated></ListInstanceProfilesResult>"), true
	case "RemoveRoleFromInstanceProfile":
		if p == nil || !p.Added {
			return none, true
		}
		p.Added = false
	case "DeleteInstanceProfile":
		switch {
		case p == nil || !p.Profile:
			return none, true
		case p.Added:
			return iamError(409, "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first."), true
		}
		p.Profile = false
	case "DeleteRolePolicy":
		if p == nil || !p.Policy {
			return none, true
		}
		p.Policy = false
	case "DeleteRole":
		switch {
		case p == nil || !p.Role:
			return none, true
		case p.Policy || p.Added:
			return iamError(409, "DeleteConflict", "Cannot delete entity, must delete policies first."), true
		}
		p.Role = false
	default:
		return a, false
	}
	if p != nil && !p.Role && !p.Profile {
		delete(f.profiles, name)
	}
	return query(op, "<"+op+"Result></"+op+"Result>"), true
}

func profileXML(name string) string {
	return "<Path>/gputrain/</Path><InstanceProfileName>" + name + "</InstanceProfileName><Arn>arn:aws:iam::123456789012:instance-profile/gputrain/" + name + "</Arn>"
}
