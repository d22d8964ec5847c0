package aws_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/aws"
	"github.com/gputrain/gputrain/providers/driver"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.A10G(),
		DiskGiB:     200,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), aws.Config{Region: "us-east-1"}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Four nodes close to each other, on spot if there is capacity, with the right to read one bucket.
func ExampleConfig_cluster() {
	oregon := aws.Config{
		Region:             "us-west-2",
		ClusterPlacement:   true,
		InstanceProfileARN: "auto",
		InstanceProfilePolicy: `{"Version": "2012-10-17", "Statement": [
			{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::my-data/*"}]}`,
	}
	spec := gputrain.Spec{
		Accelerator:  accelerators.A100(accelerators.Count(8), accelerators.Memory(40)),
		Nodes:        4,
		Allocation:   driver.SpotIfAvailable,
		MaxHourlyUSD: 25,
	}
	plan, err := gputrain.Plan(context.Background(), oregon, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

// A machine of a capacity block, which was paid in advance, with tags for the bill.
func ExampleConfig_capacityBlock() {
	block := aws.Config{
		Region:                "us-west-2",
		SubnetID:              "subnet-0123456789abcdef0", // in the block's zone
		CapacityReservationID: "cr-0123456789abcdef0",
		CapacityBlock:         true,
	}
	spec := gputrain.Spec{
		Accelerator:   accelerators.H100(accelerators.Count(8)),
		InstanceTypes: []string{"p5.48xlarge"},
		Tags:          map[string]string{"team": "vision"},
	}
	plan, err := gputrain.Plan(context.Background(), block, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		for _, part := range c.Offer.Parts { // disk and address cost something by the hour
			fmt.Println(part.Name, part.HourlyUSD)
		}
	}
}

// Open rejects a configuration that cannot be right before it calls AWS.
func ExampleConfig_Open() {
	_, err := aws.Config{Region: "Virginia"}.Open(context.Background())
	fmt.Println(err)
	// Output: aws: open: invalid: Region "Virginia" is not like us-east-1
}

func ExampleConfig_Name() {
	fmt.Println(aws.Config{}.Name())
	// Output: aws
}
