// Package gcp rents virtual machines from Google Compute Engine.
//
//	pool, err := gputrain.Open(ctx, gcp.Config{Region: "us-central1"}, gputrain.Spec{
//		Accelerator: accelerators.L4(), Allocation: gputrain.SpotIfAvailable, TTL: 8 * time.Hour,
//	})
//
// # At a glance
//
//   - GPUs: GPUs of their own (A2, A3, A4, G2) and added ones (N1) of Compute Engine.
//   - Spot: yes.
//   - Regions: [Config].Zone.
//   - Credentials: Google's default credentials, or a service account's key; none behind an
//     endpoint or HTTP client of one's own.
//   - Billing: by the second; ended by instances.delete.
//   - Private network: yes.
//   - Ends itself: with [Config].ServiceAccount deletes itself; without shuts down, and its disk
//     stays for Reap; Google deletes it after the TTL.
//   - Host key pinned by: the cloud's word: guest attributes.
//   - Tags: yes: labels.
//   - Tried against: a fake held to the vendor's API description, with Google's own client; not
//     live.
//
// # Credentials
//
// Application Default Credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, what
// "gcloud auth application-default login" has left, or the identity of a machine of
// Google's. [Config].Credentials takes a service account's key instead, as JSON or as the
// path of it, or by a reference. The project is Config.ProjectID, GOOGLE_CLOUD_PROJECT,
// GCLOUD_PROJECT, or the key's own.
//
// Where [Config].Endpoint is not Google's, or [Config].HTTPClient is set and that variable is
// not, calls are not signed unless Credentials are given: a gateway or a transport that
// signs itself needs nothing of Google's on this machine.
//
// # Permissions
//
// The APIs compute.googleapis.com and, for prices, cloudbilling.googleapis.com must be
// enabled. The role compute.admin has all of these but iam's, which
// iam.serviceAccountUser has:
//
//	compute.instances.{create,delete,get,list,setLabels,setMetadata,setTags,getGuestAttributes}
//	compute.disks.{create,delete,list,setLabels}
//	compute.subnetworks.{use,useExternalIp}
//	compute.machineTypes.list, compute.acceleratorTypes.list, compute.regions.get
//	compute.zoneOperations.{get,list}, compute.globalOperations.get
//	compute.firewalls.{create,delete,get,list}, compute.networks.updatePolicy   unless NoFirewall
//	compute.instances.setServiceAccount, iam.serviceAccounts.actAs              with ServiceAccount
//
// Images of other projects than Google's want compute.images.useReadOnly and
// compute.images.getFromFamily there.
//
// # Parameters
//
//	ProjectID          GOOGLE_CLOUD_PROJECT, GCLOUD_PROJECT, the credentials' project
//	Credentials        Application Default Credentials
//	Region             none             all of its zones, each with offers of its own
//	Zone               us-central1-a    unless Region or Spec.Regions is set
//	MachineType        all that fit     "g2-standard-8"
//	Image              common-cu129-ubuntu-2404-nvidia-580; Ubuntu 24.04 without a GPU
//	DiskSizeGB         200              GiB, where Spec.DiskGiB is zero
//	DiskType           pd-balanced      hyperdisk-balanced where a machine takes no other
//	Network            default
//	Subnet             the network's own
//	SourceRanges       0.0.0.0/0        who may reach SSH
//	NoFirewall         false            make no rules
//	PrivateIP          false            no public address
//	ServiceAccount     none             what nodes are, to Google
//	SSHUser            gputrain
//	SSHPort            22
//	TrustFirstContact  false            take the host key that a node shows
//	InstanceTimeout    5 minutes        until a node is taken over
//	MaxRunDuration     TTL + 10 minutes, and without TTL none
//	ThreadPoolSize     8                calls at once
//	RequestTimeout     1 minute         of one call
//	NoPrices           false
//	Endpoint           https://compute.googleapis.com, https://cloudbilling.googleapis.com
//
// # What is offered
//
// Machines that have GPUs (A2, A3, A4, G2, G4) as Google lists them in a zone; machines of
// the N1 series with T4, V100, P100 or P4 added, one offer for each number of them, on the
// usual machine (n1-standard-8, -16, -32 and -96 for 1, 2, 4 and 8) or where that is too
// small for the spec on a larger one; and for pools without GPUs plain machines. An N1
// offer is called as its machine and what is added: "n1-standard-8+nvidia-tesla-t4:1". What
// Google sells on demand by reservation only is offered as spot only. A GPU that gputrain
// does not know yet is had by accelerators.Exact of what Google calls it. TPUs are not
// offered: they are of another API.
//
// That something is offered does not say that it is there, nor that the quota allows it:
// Google tells only when a machine was asked for, by the operation that makes it. Launch
// waits for that, half a minute as a rule, and the pool goes on to the next offer.
//
// # Prices
//
// Of vCPUs, memory, GPUs and local disks that belong to the machine, by the catalogue of
// Cloud Billing, in list prices, without discounts. It comes in many pages, which take some
// seconds once a day. A price that its words do not give for certain is unknown, as all are
// where that API is not enabled or not allowed: with Spec.MaxHourlyUSD nothing is rented
// then, unless Spec.AllowUnknownPrice is set. No price includes the disk, the public address
// or traffic.
//
// # Billing
//
// By the second, until the instance is deleted. An instance that is only
// stopped, which Google calls TERMINATED, goes on being billed for its disk; gputrain
// deletes such ones. Spot machines can be taken back at any time, with 30 seconds' notice
// at best, and are then deleted with their disks.
//
// # When the client is gone
//
// A node whose lease or TTL has run out, or that nobody has taken over within
// [Config].InstanceTimeout of its start, ends itself. With [Config].ServiceAccount it
// deletes its instance; that account needs compute.instances.delete, and every process on
// the node can use it. Without it the node can only shut down, which ends all billing but
// the disk's: the stopped instance stays until [gputrain.Reap] finds it by its labels. In
// any case Google itself deletes a node ten minutes after the pool's TTL, or after
// [Config].MaxRunDuration, while it runs.
//
// # What is made
//
// Instances that are called as their nodes, each with one disk that is deleted with it, and
// two firewall rules for a pool: gputrain-ssh-POOL lets SSH in from
// [Config].SourceRanges, and gputrain-in-POOL lets the nodes reach each other. The network
// called default mostly lets both in already, to all, which these rules do not narrow.
// Labels (gputrain-managed, gputrain-run, gputrain-node, gputrain-expires, gputrain-until,
// gputrain-lease) and the metadata "gputrain" say what an instance is for, and the
// description what a rule is for. Disks of a pool that have outlived their instance are
// listed and removed, too.
//
// Every call that changes something carries a request ID, by which Google does it once
// however often it is asked. A name can only be had once in a zone: a launch whose answer was lost is
// settled by looking for its name.
//
// # Nodes and host keys
//
// The pool's key is put into the metadata, where the guest agent makes of it a user with
// sudo. OS Login, which would ignore it, is switched off for the instance, and keys of the
// project are kept out. The agent publishes the node's host keys as guest attributes, and by
// these the first connection is to the right machine. An image without the agent needs
// [Config].TrustFirstContact: then whoever stands between this program and the node at the
// first contact can take its place, and [gputrain.Spec].RequireKnownHostKey passes over all
// offers. Nodes of one zone and network reach each other by
// Node.PrivateAddr, with NCCL over TCP; Google's faster fabrics (TCPX, TCPXO, RoCE) and
// compact placement are not set up.
//
// Deep Learning images have the driver and CUDA. Whether driver 580 serves V100, P100 and
// P4, which need the proprietary modules, was not tried.
//
// # Errors
//
//   - ErrNoCapacity: the zone has none now. Set Region, so that others are tried.
//   - ErrQuota: the project may have no more; a new one may have no GPU at all
//     (GPUS_ALL_REGIONS). Ask at https://console.cloud.google.com/iam-admin/quotas.
//   - ErrAuth: no credentials, a missing permission, or an API that is not enabled.
//   - ErrUnsupported: a policy of the organisation forbids it, or the machine cannot do it.
//   - ErrNotFound: the image, or the network, is not there.
//   - ErrRateLimited: too many calls by this project at once, after several attempts.
package gcp
