package aws

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// kinds maps the codes of EC2 and the other services to kinds of failures.
var kinds = func() map[string]error {
	all := map[string]error{}
	for kind, codes := range map[error]string{
		driver.ErrNoCapacity: `InsufficientInstanceCapacity InsufficientHostCapacity InsufficientReservedInstanceCapacity InsufficientCapacity
			UnfulfillableCapacity ReservationCapacityExceeded SpotMaxPriceTooLow Unsupported InsufficientFreeAddressesInSubnet`,
		driver.ErrQuota: `VcpuLimitExceeded InstanceLimitExceeded MaxSpotInstanceCountExceeded SpotInstanceCountLimitExceeded MaxFleetCountExceeded
			VolumeLimitExceeded MaxIOPSLimitExceeded AddressLimitExceeded SecurityGroupLimitExceeded RulesPerSecurityGroupLimitExceeded
			PendingVerification LimitExceeded SnapshotLimitExceeded PendingSnapshotLimitExceeded ConcurrentSnapshotLimitExceeded`,
		driver.ErrRateLimited: `RequestLimitExceeded Throttling ThrottlingException ThrottledException EC2ThrottledException
			TooManyRequestsException RequestThrottled RequestThrottledException SlowDown`,
		driver.ErrAuth: `AuthFailure UnauthorizedOperation AccessDenied AccessDeniedException InvalidClientTokenId UnrecognizedClientException
			SignatureDoesNotMatch InvalidSignatureException IncompleteSignature RequestExpired ExpiredToken ExpiredTokenException
			MissingAuthenticationToken MissingAuthenticationTokenException AuthFailure.ServiceLinkedRoleCreationNotPermitted OptInRequired Blocked`,
		driver.ErrNotFound: `InvalidInstanceID.NotFound InvalidGroup.NotFound InvalidKeyPair.NotFound InvalidLaunchTemplateId.NotFound
			InvalidLaunchTemplateName.NotFoundException InvalidAMIID.NotFound InvalidAMIID.Unavailable InvalidSubnetID.NotFound InvalidVpcID.NotFound
			InvalidPlacementGroup.Unknown InvalidVolume.NotFound NoSuchEntity ParameterNotFound`,
		driver.ErrInvalid: `InvalidParameterValue InvalidParameterCombination InvalidBlockDeviceMapping IdempotentParameterMismatch
			InvalidUserData.Malformed MissingParameter UnknownParameter MalformedPolicyDocument InvalidParameter
			ValidationError ValidationException`,
		driver.ErrUnsupported: `InvalidInstanceType UnsupportedOperation InvalidAction`,
		driver.ErrUnavailable: `InternalError InternalFailure InternalServerError ServiceUnavailable Unavailable DependencyViolation
			InvalidPlacementGroup.InUse DeleteConflict`,
	} {
		for _, code := range strings.Fields(codes) {
			all[code] = kind
		}
	}
	return all
}()

// hints suggest what to do about a kind of failure.
var hints = map[error]string{
	driver.ErrAuth: "see that the credentials are right, that the region is enabled for the account, and that the policy in the documentation of package aws is granted",
	driver.ErrQuota: "ask for more in Service Quotas, under Amazon EC2: on-demand L-1216C47A (standard), L-DB2E81BA (G), L-417A185B (P), L-2C3B7624 (Trn), " +
		"L-1945791B (Inf), spot L-34B43A08, L-3819A6DF, L-7212CCBC, L-6B0D517C, L-B5D1601B; their units are vCPUs, and new accounts have none for G and P",
	driver.ErrRateLimited: "other programs use this account at the same time: try again in a minute",
}

// codeOf returns the code of a failure and its message, if AWS has answered.
func codeOf(err error) (code, message string) {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode(), e.ErrorMessage()
	}
	if e, ok := errors.AsType[*rest.Error](err); ok {
		return e.Code, e.Message
	}
	return "", ""
}

// isCode reports whether AWS has answered with one of the codes.
func isCode(err error, codes ...string) bool {
	code, _ := codeOf(err)
	return slices.Contains(codes, code)
}

// statusOf returns the HTTP status of a failure, or 0.
func statusOf(err error) int {
	if e, ok := errors.AsType[*sdkhttp.ResponseError](err); ok && e.Response != nil {
		return e.HTTPStatusCode()
	}
	if e, ok := errors.AsType[*rest.Error](err); ok {
		return e.Status
	}
	return 0
}

// kindOf returns the kind of a failure, by AWS's code before its status. It returns nil if AWS
// has not refused the call.
func kindOf(err error) error {
	if known, ok := errors.AsType[*driver.Error](err); ok {
		return known.Kind
	}
	if code, message := codeOf(err); code != "" {
		if kind := kindOfCode(code, message); kind != nil {
			return kind
		}
	}
	switch status := statusOf(err); {
	case status == http.StatusTooManyRequests:
		return driver.ErrRateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return driver.ErrAuth
	case status >= 500:
		return driver.ErrUnavailable
	case status >= 400:
		return nil
	case errors.Is(err, driver.ErrInvalid):
		return driver.ErrInvalid
	case errors.Is(err, context.Canceled):
		return nil
	}
	if _, called := errors.AsType[*smithy.OperationError](err); called {
		return driver.ErrUnavailable // no answer, or an unreadable one
	}
	if _, called := errors.AsType[*rest.Error](err); called || errors.Is(err, rest.ErrAnswer) {
		return driver.ErrUnavailable
	}
	return nil
}

// kindOfCode returns the kind of a code. If the account may not make the service-linked role
// for fleets, the fleet reports no capacity.
func kindOfCode(code, message string) error {
	said := strings.ToLower(message)
	switch {
	case strings.Contains(said, "service-linked role"), strings.Contains(said, "servicelinkedrole"):
		return driver.ErrAuth
	case kinds[code] != nil:
		return kinds[code]
	case strings.HasSuffix(code, ".NotFound"):
		return driver.ErrNotFound
	case strings.HasSuffix(code, ".Malformed"):
		return driver.ErrInvalid
	}
	return nil
}

// isAmbiguous reports whether a failed create may still have created something: AWS has not
// refused it.
func isAmbiguous(err error) bool {
	kind := kindOf(err)
	return err != nil && (kind == nil || kind == driver.ErrUnavailable)
}

// isAnswered reports whether a failed call was answered by AWS itself, not by a gateway that
// has heard nothing from it. A create is not repeated after a failure that leaves its effect
// open.
func isAnswered(err error) bool {
	code, _ := codeOf(err)
	status := statusOf(err)
	return kinds[code] != nil || status == http.StatusInternalServerError || status == http.StatusNotImplemented
}

// isGone reports whether AWS answered that the thing does not exist.
func isGone(err error) bool { return kindOf(err) == driver.ErrNotFound }

// isDenied reports whether the credentials are right but lack this permission.
func isDenied(err error) bool {
	return isCode(err, "UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
}

// fail puts a failure into the form that callers see.
func fail(op string, err error) error { return cloud.Form(providerName, op, err, details) }

// details returns the kind of a failure, its request ID, and a hint.
func details(err error) driver.Error {
	e := driver.Error{Kind: kindOf(err), RequestID: cloud.RequestID(err)}
	if answer, ok := errors.AsType[*sdkhttp.ResponseError](err); ok {
		e.RequestID = answer.RequestID
	}
	e.Hint = hints[e.Kind]
	switch code, _ := codeOf(err); code {
	case "OptInRequired":
		e.Hint = "the account has not signed up for this, or the region is not enabled for it: see its settings in AWS's console"
	case "PendingVerification":
		e.Hint = "AWS is still verifying the account, which takes up to four hours"
	case "DependencyViolation", "InvalidPlacementGroup.InUse", "DeleteConflict":
		e.Hint = "something still uses it, such as a machine that is shutting down: try again in a minute"
	}
	return e
}
