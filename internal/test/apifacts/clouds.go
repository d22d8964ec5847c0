package apifacts

import "testing"

// A cloud is one whose facts the repository has.
type cloud struct {
	name string
	file string // in the provider's testdata
	from []source
	// onlyHere are calls that no file of the contracts has as the service has them. Their facts are compared with nothing.
	onlyHere []string
}

// A source reads a description of the contracts.
type source func(testing.TB) map[string]any

// clouds are all clouds that have a fake. Of a call in several of a cloud's descriptions, the facts of the first are taken.
var clouds = []cloud{
	{
		name: "aws", file: api, from: []source{plainly("aws/ec2-2016-11-15.trimmed.json")},
		onlyHere: []string{"CreateImage", "DeleteSnapshot", "DeregisterImage", "DescribeSnapshots"},
	},
	{name: "colab", file: api, from: []source{openAPI("colab/ngrok-agent.derived.yaml")}},
	{name: "colab", file: "endpoint.schema.json", from: []source{plainly("colab/endpoint.schema.json")}},
	{
		name: "gcp", file: api, from: []source{google("gcp/gce-compute-v1.trimmed.json")},
		onlyHere: []string{
			"GET /compute/v1/projects/{project}/global/images", "POST /compute/v1/projects/{project}/global/images",
			"GET /compute/v1/projects/{project}/global/images/{image}", "DELETE /compute/v1/projects/{project}/global/images/{image}",
			"POST /compute/v1/projects/{project}/global/images/{resource}/setLabels",
		},
	},
	{
		name: "hyperstack", file: api, from: []source{openAPI("hyperstack/hyperstack-v1.lifecycle.derived.openapi.json")},
		onlyHere: []string{ // the vendor's whole description has them, but allows no null in answers
			"GET /v1/core/snapshots", "DELETE /v1/core/snapshots/{id}", "POST /v1/core/snapshots/{snapshot_id}/image",
			"POST /v1/core/virtual-machines/{vm_id}/snapshots",
		},
	},
	{name: "jarvislabs", file: api, from: []source{openAPI("jarvislabs/jarvislabs-lifecycle.derived.yaml")}},
	{name: "lambda", file: api, from: []source{openAPI("lambda/lambda-lifecycle-3.0.derived.json")}},
	{name: "massedcompute", file: api, from: []source{openAPI("massedcompute/massedcompute-vm-1.0.0.repaired.yaml")}},
	{name: "novita", file: api, from: []source{openAPI("novita/novita-v1-lifecycle.derived.yaml")}},
	{name: "runpod", file: api, from: []source{openAPI("runpod/rest-v2.lifecycle.derived.openapi.json")}},
	{name: "scaleway", file: api, from: []source{openAPI("scaleway/scaleway.lifecycle.derived.openapi.json")}},
	{name: "tensordock", file: api, from: []source{
		// An instance with attributes has both shapes, of which the description allows one.
		openAPI("tensordock/tensordock-v2.lifecycle.derived.openapi.yaml", renameKey("/components/schemas/InstanceAny", "oneOf", "anyOf")),
		openAPI("tensordock/third-party/tensordock-v0-marketplace-openapi.yml"), // only this one has the balance
	}},
	{name: "vastai", file: api, from: []source{
		openAPI("vastai/vast.lifecycle.derived.openapi.yaml"),
		openAPI("vastai/vast.openapi.yaml", TrailingSlash), // only this one has the removal of keys
	}},
	{name: "verda", file: api, from: []source{openAPI("verda/verda-v1.lifecycle.derived.openapi.json")}},
	{
		name: "vultr", file: api,
		from: []source{openAPI("vultr/vultr-v2.lifecycle.derived.openapi.json",
			renameKey("/paths/~1plans-metal/get/responses/200/content/application~1json/schema/properties", "plans", "plans_metal"))},
		onlyHere: []string{ // the vendor's description of 2023 has them, with open requests
			"GET /v2/snapshots", "POST /v2/snapshots",
			"GET /v2/snapshots/{snapshot-id}", "PUT /v2/snapshots/{snapshot-id}", "DELETE /v2/snapshots/{snapshot-id}",
		},
	},
}

const api = "api.json"

func openAPI(file string, amendments ...Amendment) source {
	return func(t testing.TB) map[string]any { return OpenAPI(t, file, amendments...) }
}

func google(file string) source {
	return func(t testing.TB) map[string]any { return Google(t, file) }
}

func plainly(file string) source {
	return func(t testing.TB) map[string]any { return document(t, file) }
}
