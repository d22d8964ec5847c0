package aws

import (
	"context"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/gputrain/gputrain/providers/driver"
)

// volumes are disks that outlived their machines and are still billed.
type volumes struct{ api *client }

func (v *volumes) shared() sharedKind {
	return sharedKind{name: kindVolume, usedByMachines: true, list: v.list, delete: v.delete}
}

func (v *volumes) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	pages := ec2.NewDescribeVolumesPaginator(v.api.ec2, &ec2.DescribeVolumesInput{Filters: append(ofPool(poolID), filter("status", "available"))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = isList("DescribeVolumes", page.Volumes)
		}
		if err != nil {
			return nil, err
		}
		for _, disk := range page.Volumes {
			r := tagList(disk.Tags).resource(kindVolume, sdk.ToString(disk.VolumeId), "", v.api.region)
			r.Created = sdk.ToTime(disk.CreateTime)
			r.HourlyUSD = driver.USD(float64(sdk.ToInt32(disk.Size)) * diskUSD)
			all = append(all, r)
		}
	}
	return all, nil
}

func (v *volumes) delete(ctx context.Context, r driver.Resource) error {
	_, err := v.api.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &r.ID})
	return err
}
