// Package apifacts keeps the descriptions of clouds' APIs that fakes check calls against: providers/*/testdata/api.json,
// in one form, with facts only. They are methods, paths, parameters, fields with their types and limits, statuses and
// media types of the calls that a driver makes, and of nothing else. No text of a vendor's is in them.
//
// The vendors' own descriptions are in ../shared/contracts beside the module, if it is there. A test then derives the
// facts again, and reports every difference by its path. Run in this folder
//
//	go test . -update
//
// to rewrite the files, and read the changes. To add a call, write it into the file with no facts, as in
// "/v1/things": {"post": {}}, under "paths" (in AWS's file "StartInstances": {} under "operations", in RunPod's
// schema a field of Query or Mutation with any type), and update. If no file of the vendor's has the call, write its
// facts by hand, and add it to the cloud's entry in clouds.go.
//
// The form is OpenAPI's, with full paths, for all clouds but two: EC2 has the structure of the AWS SDKs' models, and
// RunPod's GraphQL is a schema. An operation that has a name, such as compute.instances.insert, is called by it.
//
// The package is for tests only.
package apifacts
