package aws

import (
	"context"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// keyPairs are the pools' public keys in EC2.
type keyPairs struct{ api *client }

func (k *keyPairs) shared() sharedKind {
	return sharedKind{name: kindKey, list: k.list, delete: k.delete}
}

// prepare registers the pool's public key.
func (k *keyPairs) prepare(ctx context.Context, pool driver.PoolInfo) error {
	name := pooltag.SharedName(pool.ID)
	return namedThing{
		kind: kindKey, region: k.api.region,
		find: func() (id, owner string, err error) {
			out, err := k.api.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{Filters: []types.Filter{filter("key-name", name)}})
			if err != nil || len(out.KeyPairs) == 0 {
				return "", "", err
			}
			return sdk.ToString(out.KeyPairs[0].KeyPairId), tagList(out.KeyPairs[0].Tags).pool(), nil
		},
		create: func() error {
			_, err := k.api.ec2.ImportKeyPair(ctx, &ec2.ImportKeyPairInput{
				KeyName: &name, PublicKeyMaterial: []byte(pool.AuthorizedKey), TagSpecifications: poolTags(pool, name).specifications(types.ResourceTypeKeyPair),
			}, once)
			return err
		},
	}.prepare(ctx, pool)
}

func (k *keyPairs) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	out, err := k.api.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{Filters: ofPool(poolID)})
	if err != nil {
		return nil, err
	}
	for _, key := range out.KeyPairs {
		all = append(all, freeResource(k.api.region, key.Tags, kindKey, sdk.ToString(key.KeyPairId), sdk.ToString(key.KeyName), key.CreateTime))
	}
	return all, nil
}

func (k *keyPairs) delete(ctx context.Context, r driver.Resource) error {
	_, err := k.api.ec2.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyPairId: &r.ID})
	return err
}
