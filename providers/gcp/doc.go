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
//   - Ends itself: with [Config].ServiceAccount deletes itself; without shuts down after its lease,
//     and its disk stays for Reap; Google deletes it after the TTL.
//   - Host key pinned by: the cloud's word: guest attributes.
//   - Tags: yes: labels.
//   - Tried against: a fake held to the vendor's API description, with Google's own client; not
//     live.
//
// # Credentials
//
// Application Default Credentials: the file in GOOGLE_APPLICATION_CREDENTIALS, the login of
// "gcloud auth application-default login", or the identity of a machine of Google's.
// [Config].Credentials takes a service account's key instead: JSON, its path, or a reference.
// The project is Config.ProjectID, GOOGLE_CLOUD_PROJECT, GCLOUD_PROJECT, or the key's own.
//
// If [Config].Endpoint is not Google's, or if [Config].HTTPClient is set and that variable is
// not, calls are not signed unless Credentials are given. A gateway or a transport that signs
// calls needs no credentials on this machine.
//
// # Permissions
//
// The APIs compute.googleapis.com and, for prices, cloudbilling.googleapis.com must be enabled.
// The role compute.admin has all of these permissions except iam's, which
// iam.serviceAccountUser has:
//
//	compute.instances.{create,delete,get,list,setLabels,setMetadata,setTags,getGuestAttributes}
//	compute.disks.{create,delete,list,setLabels}, compute.subnetworks.use
//	compute.machineTypes.list, compute.acceleratorTypes.list, compute.zoneOperations.{get,list}
//	compute.subnetworks.useExternalIp                                           unless PrivateIP
//	compute.firewalls.{create,delete,get,list}, compute.networks.updatePolicy   unless NoFirewall
//	compute.globalOperations.get                                                unless NoFirewall
//	compute.instances.setServiceAccount, iam.serviceAccounts.actAs              with ServiceAccount
//	compute.regions.{get,list}, compute.projects.get                            for quotas and places
//	compute.images.{create,delete,get,list,setLabels,useReadOnly}               for gputrain.Bake
//	compute.disks.useReadOnly, compute.globalOperations.get                     for gputrain.Bake
//
// Those for quotas are optional: without them, Region, Spec.Regions and Spec.Countries cannot be used, and
// only a launch shows that a quota is used up. The list was tested against a fake that refuses
// everything else, by what is known of each call's permissions; not yet against Google.
//
// Images of projects other than Google's also need compute.images.useReadOnly and
// compute.images.getFromFamily there.
//
// # Baked images
//
// [gputrain.Bake] makes an image of the project, which serves all zones; its price is an estimate, $0.05 a
// month for each GB that Google reports as stored. Launches from it have a disk of the baked machine's
// size at least. It has the label gputrain-baked, and its description has the default family that it
// was made of: to bake on a newer image of the family, delete it first. An image in the making has the
// labels of its pool only, and [gputrain.Reap] deletes it.
//
// # Parameters
//
//	ProjectID          GOOGLE_CLOUD_PROJECT, GCLOUD_PROJECT, the credentials' project
//	Credentials        Application Default Credentials
//	Region             none             all of its zones, each with offers of its own
//	Zone               us-central1-a    unless Region, Spec.Regions or Spec.Countries is set
//	MachineType        all that fit     "g2-standard-8"
//	Image              common-cu129-ubuntu-2404-nvidia-580; Ubuntu 24.04 without a GPU
//	DiskSizeGB         200              GiB, if Spec.DiskGiB is zero
//	DiskType           pd-balanced      hyperdisk-balanced if a machine takes no other
//	Network            default
//	Subnet             the network's own
//	SourceRanges       0.0.0.0/0        addresses that reach SSH
//	NoFirewall         false            make no rules
//	PrivateIP          false            no public address
//	Reservation        none             that all nodes run in; needs Zone
//	ServiceAccount     none             the identity of the nodes
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
// Machines with GPUs of their own (A2, A3, A4, G2, G4), as Google lists them in a zone.
// Machines of the N1 series with T4, V100, P100 or P4 added: one offer for each number of GPUs,
// on the usual machine (n1-standard-8, -16, -32 and -96 for 1, 2, 4 and 8), or on a larger one
// if that is too small for the spec. Plain machines for pools without GPUs. The ID of an N1
// offer names the machine and the GPUs: "n1-standard-8+nvidia-tesla-t4:1". Types that Google
// sells on demand by reservation only are offered as spot, and with [Config].Reservation on
// demand. accelerators.Exact with
// Google's name requests a GPU that gputrain does not know yet. TPUs are not offered: they have
// another API.
//
// An offer may have no capacity. Google reports that only in the operation that makes a machine.
// Launch waits for it, usually half a minute, and the pool goes on to the next offer. Quotas of
// GPUs are known before: those of the region (NVIDIA_L4_GPUS, and PREEMPTIBLE_NVIDIA_L4_GPUS for
// spot, unless that is 0) for T4, V100, P100, P4, L4 and A100, and GPUS_ALL_REGIONS of the project.
//
// Machines are inserted one by one, not by bulkInsert or from an instance template: each has a name,
// labels and metadata of its own, which say its rank; its request ID, by which a repeated call makes
// nothing twice, is its own; and one that finds no capacity does not take back the others, as a bulk
// does. A template would only be one more thing to remove.
//
// # Prices
//
// List prices of vCPUs, memory, GPUs and the machine's local disks, from the catalogue of Cloud
// Billing, without discounts. The catalogue has many pages, which take some seconds once a day.
// A price is unknown if the catalogue's descriptions are ambiguous; all prices are unknown if
// that API is not enabled or not allowed. With Spec.MaxHourlyUSD the pool then rents nothing,
// unless Spec.AllowUnknownPrice is set. A price includes the disk, of the size that a launch makes,
// and the public address, at the rate after what an account gets for free; if the catalogue does
// not price one of them, a warning of the offer says so. Traffic to the internet has a price of its
// own, to the nearest continent. Nodes in [Config].Reservation cost nothing beside the
// reservation, which is billed whether they run or not; the price of the offer is that of the
// machine.
//
// # Billing
//
// By the second, until the instance is deleted. The disk of a stopped instance, which Google
// calls TERMINATED, is still billed; gputrain deletes stopped instances. Google can preempt
// spot machines at any time, with 30 seconds' notice at best; they are then deleted with their
// disks.
//
// # When the client is gone
//
// A node ends itself when its lease or TTL has run out, or if no pool has taken it over within
// [Config].InstanceTimeout of its start. With [Config].ServiceAccount it deletes its instance;
// that account needs compute.instances.delete, and every process on the node can use it.
// Without it the node only shuts down, InstanceTimeout after its lease. That ends all billing except
// the disk's, so that gputrain counts its cost as unbounded, and gputrain.Plan warns: the stopped
// instance stays until [gputrain.Reap] finds it by its labels. In any case Google itself
// deletes a running node ten minutes after the pool's TTL, or after [Config].MaxRunDuration.
//
// # What is made
//
// Instances with the names of their nodes, each with one disk that is deleted with it, and two
// firewall rules for a pool: gputrain-ssh-POOL lets SSH in from [Config].SourceRanges, and
// gputrain-in-POOL lets the nodes reach each other. The default network usually allows both
// already, to everyone, and these rules do not narrow that. The labels (gputrain-managed,
// gputrain-run, gputrain-node, gputrain-expires, gputrain-until, gputrain-lease) and the
// metadata "gputrain" identify an instance's pool; a rule's description identifies the rule's.
// [gputrain.Spec].Tags are labels of each instance and its disk: at most 54, in lower case.
// Disks of a pool that outlived their instance are listed and removed, too.
//
// Every call that changes something carries a request ID, so that Google performs it once
// however often it is sent. A name is unique in a zone: if the answer of a launch was lost,
// gputrain looks for the name.
//
// # Nodes and host keys
//
// The pool's key is in the metadata, from which the guest agent makes a user with sudo. OS
// Login, which would ignore the key, is switched off for the instance, and keys of the project
// are kept out. The agent publishes the node's host keys as guest attributes, and the first
// connection is verified by them. An image without the agent needs [Config].TrustFirstContact:
// then an attacker between this program and the node can take the node's place at the first
// contact, and [gputrain.Spec].RequireKnownHostKey rejects all offers. Nodes of one zone and
// network reach each other by Node.PrivateAddr, with NCCL over TCP; Google's faster fabrics
// (TCPX, TCPXO, RoCE) and compact placement are not set up.
//
// Deep Learning images have the driver and CUDA. Whether driver 580 serves V100, P100 and
// P4, which need the proprietary modules, was not tried.
//
// # Errors
//
//   - ErrNoCapacity: the zone has none now. Set Region, so that other zones are tried.
//   - ErrQuota: the project may have no more; a new one may have no GPU at all
//     (GPUS_ALL_REGIONS). The error names the quota, what it allows and what is used. Ask at https://console.cloud.google.com/iam-admin/quotas.
//   - ErrAuth: no credentials, a missing permission, or an API that is not enabled.
//   - ErrUnsupported: a policy of the organisation forbids it, or the machine cannot do it.
//   - ErrNotFound: the image, or the network, is not there.
//   - ErrRateLimited: too many calls by this project at once, after several attempts.
package gcp
