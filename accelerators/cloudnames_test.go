package accelerators

// cloudNames has the clouds' names of devices, and what each means, as String
// prints it. A refused name has a "!" and a part of the error, and after
// another "!" the reason, if the error does not give it.
var cloudNames = map[string]string{
	// GpuInfo.Gpus[].Name and NeuronInfo.NeuronDevices[].Name; AcceleratorName of
	// the instance requirements; instance types.
	"aws": `
T4                  = T4
T4g                 = T4G
A10G                = A10G
L4                  = L4
L40S                = L40S
RTX PRO 4500        = RTXPRO4500
RTX PRO Server 6000 = RTXPRO6000
V100                = V100-SXM
A100                = A100-SXM
H100                = H100-SXM
H200                = H200-SXM
B200                = B200
B300                = B300
GB200               = GB200
Trainium            = Trainium
Trainium2           = Trainium2
Inferentia          = Inferentia
Inferentia2         = Inferentia2
a10g                = A10G
t4g                 = T4G
k520                = K520
k80                 = K80
m60                 = M60
radeon-pro-v520     = V520
vu9p                ! an FPGA
g4dn.xlarge         ! instance type
g4dn.metal          ! instance type
g6f.large           ! instance type
gr6f.4xlarge        ! instance type
p3dn.24xlarge       ! instance type
p4de.24xlarge       ! instance type
p5en.48xlarge       ! instance type
p6-b200.48xlarge    ! instance type
p6e-gb200.36xlarge  ! instance type
trn1n.32xlarge      ! instance type
trn2.48xlarge       ! instance type
inf1.24xlarge       ! instance type
inf2.48xlarge       ! instance type`,

	// guestAcceleratorType; a quota's metric, without prefix and suffix;
	// machine types.
	"gcp": `
nvidia-tesla-t4       = T4
nvidia-tesla-v100     = V100-16GB-SXM
nvidia-tesla-p100     = P100-16GB-PCIe
nvidia-tesla-p4       = P4
nvidia-tesla-k80      = K80
nvidia-l4             = L4
nvidia-tesla-a100     = A100-40GB-SXM
nvidia-a100-80gb      = A100-80GB-SXM
nvidia-h100-80gb      = H100-80GB-SXM
nvidia-h100-mega-80gb = H100-80GB-SXM
nvidia-h200-141gb     = H200-141GB-SXM
nvidia-b200           = B200
nvidia-gb200          = GB200
nvidia-rtx-pro-6000   = RTXPRO6000
nvidia-tesla-t4-vws   ! licensed for graphics
nvidia-l4-vws         ! licensed for graphics
NVIDIA_T4_VWS         ! licensed for graphics
NVIDIA_P4_VWS         ! licensed for graphics
NVIDIA_P100_VWS       ! licensed for graphics
NVIDIA_A100           = A100
NVIDIA_A100_80GB      = A100-80GB
TPU_LITE_PODSLICE_V5  = TPUv5e
TPU_LITE_DEVICE_V5    = TPUv5e
TPU_PODSLICE_V4       = TPUv4
ct5lp                 ! TPU API
ct6e                  ! TPU API
g2-standard-96        ! machine type
a2-highgpu-1g         ! machine type
a2-megagpu-16g        ! machine type
a2-ultragpu-8g        ! machine type
a3-edgegpu-8g         ! machine type
a3-megagpu-8g         ! machine type
a4-highgpu-8g         ! machine type
a4x-highgpu-4g        ! machine type
g4-standard-384       ! machine type
n1-standard-96        ! machine type`,

	// A flavor's gpu, a stock's model, a price's name; a flavor's name.
	"hyperstack": `
H100-80G-PCIe          = H100-80GB-PCIe
H100-80G-PCIe-spot     = H100-80GB-PCIe
H100-80G-PCIe-NVLink   = H100-80GB-PCIe
H100-80G-SXM5          = H100-80GB-SXM
A100-80G-PCIe          = A100-80GB-PCIe
A100-80G-PCIe-NVLink   = A100-80GB-PCIe
A100-80G-SXM4          = A100-80GB-SXM
L40                    = L40
RTX-A6000              = A6000
RTX-A4000              = A4000
H200                   = H200
GH200                  = GH200
n3-H100x1              = H100-80GB-PCIe
n3-H100x2-spot         = H100-80GB-PCIe:2
n3-H100x8-NVLink       = H100-80GB-PCIe:8
n3-H100x8-NVLink-K8s   = H100-80GB-PCIe:8
n3-H100-SXM5x8         = H100-80GB-SXM:8
n3-A100x4              = A100-80GB-PCIe:4
n3-A100x8-NVLink       = A100-80GB-PCIe:8
n2-A100x8-NVLink-v2    = A100-80GB-PCIe:8
n3-A100-SXM4x8         = A100-80GB-SXM:8
n3-L40x8               = L40:8
n3-RTX-A6000x4         = A6000:4`,

	// gpu_type
	"jarvislabs": `
L4           = L4
A30          = A30
A100         = A100-40GB
A100-80GB    = A100-80GB
H100         = H100-SXM
H200         = H200-SXM
RTX-PRO6000  = RTXPRO6000
RTX PRO 6000 = RTXPRO6000
A6000        = A6000
RTX6000Ada   = RTX6000Ada
RTX5000      = QuadroRTX5000
CPU          = cpu`,

	// The product's name; gpu_description; description.
	"lambda": `
gpu_1x_a10             = A10
gpu_1x_rtx6000         = QuadroRTX6000
gpu_1x_a6000           = A6000
gpu_4x_a6000           = A6000:4
gpu_1x_a100            = A100-40GB
gpu_2x_a100            = A100-40GB:2
gpu_1x_a100_sxm4       = A100-40GB-SXM
gpu_8x_a100            = A100-40GB:8
gpu_8x_a100_80gb_sxm4  = A100-80GB-SXM:8
gpu_1x_h100_pcie       = H100-PCIe
gpu_1x_h100_sxm5       = H100-SXM
gpu_8x_h100_sxm5       = H100-SXM:8
gpu_8x_h100_sxm5gdr    = H100-SXM:8
gpu_1x_b200_sxm6       = B200-SXM
gpu_8x_b200_sxm6       = B200-SXM:8
gpu_1x_gh200           = GH200
gpu_8x_v100            = V100-16GB:8
gpu_8x_v100_n          = V100-16GB:8
cpu_4x_general         = cpu
N/A                    = cpu
A10 (24 GB PCIe)       = A10-24GB-PCIe
A100 (40 GB PCIe)      = A100-40GB-PCIe
A100 (40 GB SXM4)      = A100-40GB-SXM
A100 (80 GB SXM4)      = A100-80GB-SXM
H100 (80 GB PCIe)      = H100-80GB-PCIe
H100 (80 GB SXM5)      = H100-80GB-SXM
B200 (180 GB SXM6)     = B200-180GB-SXM
GH200 (96 GB)          = GH200-96GB
A6000 (48 GB)          = A6000-48GB
RTX 6000 (24 GB)       = QuadroRTX6000-24GB
Tesla V100 (16 GB)     = V100-16GB
8x A100 (80 GB SXM4)   = A100-80GB-SXM:8
8x Tesla V100 (16 GB)  = V100-16GB:8
RTX A100 (24 GB)       ! no accelerator ! an example in the description, of a card that there never was
1x RTX A100 (24 GB)    ! no accelerator ! the same`,

	// The product's name; its description.
	"massedcompute": `
gpu_1x_A100_SXM4                  = A100-80GB-SXM
gpu_8x_DGX_A100                   = A100-80GB-SXM:8
gpu_1x_h100                       = H100
gpu_8x_h100_sxm5                  = H100-SXM:8
gpu_1x_h100_spot                  = H100
gpu_1x_h100_nvl                   = H100-NVL
gpu_4x_h200_nvl_nvlink_discount   = H200-NVL:4
gpu_1x_pro_6000_blackwell         = RTXPRO6000
gpu_1x_6000_ada                   = RTX6000Ada
gpu_4x_a6000                      = A6000:4
gpu_1x_a6000_low_ram              = A6000
gpu_1x_a5000_high_ram             = A5000
gpu_1x_l40                        = L40
gpu_2x_l40s                       = L40S:2
gpu_1x_a30                        = A30
cpu_4x                            = cpu
1x L40                            = L40
1x L40 (48GB)                     = L40-48GB
1x H100 NVL (94GB) [Spot]         = H100-94GB-NVL
1x L40 (48GB) [Premium]           = L40-48GB
1x A6000 (48GB) [ALT Config]      = A6000-48GB`,

	// The product's name; a cluster's availableGpuType; the product's id.
	"novita": `
RTX 4090 24GB        = RTX4090-24GB
RTX 3090 24GB        = RTX3090-24GB
RTX 5090 32GB        = RTX5090-32GB
A100 SXM 80GB        = A100-80GB-SXM
H100 SXM 80GB        = H100-80GB-SXM
RTX 4090             = RTX4090
4090.16c62g          ! opaque
4090.16c96g.v2       ! opaque
A100-80GB.14c240g    ! opaque`,

	// A GPU type's id, in both APIs; pools.
	"runpod": `
NVIDIA A30                          = A30
NVIDIA  A30                         = A30
NVIDIA RTX A30                      = A30
NVIDIA A40                          = A40
NVIDIA A100 80GB PCIe               = A100-80GB-PCIe
NVIDIA A100-SXM4-80GB               = A100-80GB-SXM
NVIDIA A100-SXM4-40GB               = A100-40GB-SXM
NVIDIA H100 PCIe                    = H100-PCIe
NVIDIA H100 80GB HBM3               = H100-80GB-SXM
NVIDIA H100 NVL                     = H100-NVL
NVIDIA H200                         = H200-SXM
NVIDIA H200 NVL                     = H200-NVL
NVIDIA B200                         = B200
NVIDIA B300 SXM6 AC                 = B300-SXM
NVIDIA L4                           = L4
NVIDIA L40                          = L40
NVIDIA L40S                         = L40S
AMD Instinct MI300X OAM             = MI300X-OAM
Tesla T4                            = T4
Tesla V100-PCIE-16GB                = V100-16GB-PCIe
Tesla V100-SXM2-16GB                = V100-16GB-SXM
Tesla V100-FHHL-16GB                = V100-16GB-PCIe
Tesla V100-SXM2-32GB                = V100-32GB-SXM
Tesla V100-PCIE-32GB                = V100-32GB-PCIe
NVIDIA GeForce RTX 3070             = RTX3070
NVIDIA GeForce RTX 3080             = RTX3080
NVIDIA GeForce RTX 3080 Ti          = RTX3080Ti
NVIDIA GeForce RTX 3080TI           = RTX3080Ti
NVIDIA GeForce RTX 3090             = RTX3090
NVIDIA GeForce RTX 3090 Ti          = RTX3090Ti
NVIDIA GeForce RTX 4070 Ti          = RTX4070Ti
NVIDIA GeForce RTX 4080             = RTX4080
NVIDIA GeForce RTX 4080 SUPER       = RTX4080Super
NVIDIA GeForce RTX 4090             = RTX4090
NVIDIA GeForce RTX 5080             = RTX5080
NVIDIA GeForce RTX 5090             = RTX5090
NVIDIA RTX A2000                    = A2000
NVIDIA RTX A4000                    = A4000
NVIDIA RTX A4500                    = A4500
NVIDIA  RTX A4500                   = A4500
NVIDIA RTX A5000                    = A5000
NVIDIA RTX A6000                    = A6000
NVIDIA RTX 2000 Ada Generation      = RTX2000Ada
NVIDIA RTX 4000 Ada Generation      = RTX4000Ada
NVIDIA RTX 4000 SFF Ada Generation  = RTX4000SFFAda
NVIDIA RTX 5000 Ada Generation      = RTX5000Ada
NVIDIA RTX 6000 Ada Generation      = RTX6000Ada
NVIDIA RTX PRO 4500 Blackwell       = RTXPRO4500
NVIDIA RTX PRO 6000 Blackwell Server Edition              = RTXPRO6000
NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb  = RTXPRO6000-24GB:0.25
NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 2g.48gb  = RTXPRO6000-48GB:0.5
NVIDIA RTX PRO 6000 Blackwell Workstation Edition         = RTXPRO6000
NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition   = RTXPRO6000MaxQ
NVIDIA A5000 Ada                    ! may mean
ADA_24                              ! several devices`,

	// gpu_info.gpu_name; commercial types.
	"scaleway": `
L4              = L4
L40S            = L40S
H100-PCIe       = H100-PCIe
H100-SXM        = H100-SXM
B300-SXM        = B300-SXM
L4-1-24G        = L4-24GB
L4-8-24G        = L4-24GB:8
L40S-2-48G      = L40S-48GB:2
H100-1-80G      = H100-80GB-PCIe
H100-2-80G      = H100-80GB-PCIe:2
H100-SXM-2-80G  = H100-80GB-SXM:2
H100-SXM-8-80G  = H100-80GB-SXM:8
B300-SXM-8-288G = B300-288GB-SXM:8
RENDER-S        = P100-16GB-PCIe`,

	// v0Name; displayName.
	"tensordock": `
h100-sxm5-80gb                = H100-80GB-SXM
a100-sxm4-80gb                = A100-80GB-SXM
a100-pcie-80gb                = A100-80GB-PCIe
a100-pcie-40gb                = A100-40GB-PCIe
v100-sxm2-16gb                = V100-16GB-SXM
v100-sxm2-32gb                = V100-32GB-SXM
v100-sxm3-32gb                = V100-32GB-SXM
v100-pcie-16gb                = V100-16GB-PCIe
teslav100-pcie-16gb           = V100-16GB-PCIe
a40-pcie-48gb                 = A40-48GB-PCIe
a2-pcie-16gb                  = A2-16GB-PCIe
l40s-pcie-48gb                = L40S-48GB-PCIe
l40-pcie-48gb                 = L40-48GB-PCIe
l4-pcie-24gb                  = L4-24GB-PCIe
rtx6000ada-pcie-48gb          = RTX6000Ada-48GB-PCIe
rtx5000ada-pcie-32gb          = RTX5000Ada-32GB-PCIe
rtx4500ada-pcie-24gb          = RTX4500Ada-24GB-PCIe
rtx4000ada-pcie-20gb          = RTX4000Ada-20GB-PCIe
rtx4000sffada-pcie-20gb       = RTX4000SFFAda-20GB-PCIe
rtxa6000-pcie-48gb            = A6000-48GB-PCIe
a6000-pcie-48gb               = A6000-48GB-PCIe
rtxa5500-pcie-24gb            = A5500-24GB-PCIe
rtxa5000-pcie-24gb            = A5000-24GB-PCIe
rtxa4500-pcie-20gb            = A4500-20GB-PCIe
rtxa4000-pcie-16gb            = A4000-16GB-PCIe
quadrortx8000-pcie-48gb       = QuadroRTX8000-48GB-PCIe
quadrortx6000-pcie-48gb       ! at most 24 GiB ! the card has 24, and one of 48 is called Quadro RTX 8000
teslap4-pcie-8gb              = P4-8GB-PCIe
teslap100-sxm2-16gb           = P100-16GB-SXM
teslap100-pcie-16gb           = P100-16GB-PCIe
teslam40-pcie-24gb            = M40-24GB-PCIe
geforcertx5090-pcie-32gb      = RTX5090-32GB-PCIe
geforcertx4090-pcie-24gb      = RTX4090-24GB-PCIe
rtx4090-24gb                  = RTX4090-24GB
geforcertx4080super-pcie-16gb = RTX4080Super-16GB-PCIe
geforcertx4080-pcie-16gb      = RTX4080-16GB-PCIe
geforcertx4070tisuper-pcie-16gb = RTX4070TiSuper-16GB-PCIe
geforcertx3090ti-pcie-24gb    = RTX3090Ti-24GB-PCIe
geforcertx3090-pcie-24gb      = RTX3090-24GB-PCIe
geforcertx3080ti-pcie-12gb    = RTX3080Ti-12GB-PCIe
geforcertx3080-pcie-10gb      = RTX3080-10GB-PCIe
geforcertx3080-pcie-12gb      = RTX3080-12GB-PCIe
geforcertx3080lhr-pcie-10gb   = RTX3080-10GB-PCIe
geforcertx3070ti-pcie-8gb     = RTX3070Ti-8GB-PCIe
geforcertx3070-pcie-8gb       = RTX3070-8GB-PCIe
geforcertx3060ti-pcie-8gb     = RTX3060Ti-8GB-PCIe
geforcertx3060tilhr-pcie-8gb  = RTX3060Ti-8GB-PCIe
geforcertx3060-pcie-12gb      = RTX3060-12GB-PCIe
geforcertx3060lhr-pcie-12gb   = RTX3060-12GB-PCIe
geforcertx3050-pcie-8gb       = RTX3050-8GB-PCIe
geforcertx2080ti-pcie-11gb    = RTX2080Ti-11GB-PCIe
geforcertx2080super-pcie-8gb  = RTX2080Super-8GB-PCIe
geforcertx2060super-pcie-8gb  = RTX2060Super-8GB-PCIe
geforcegtx1660super-pcie-6gb  = GTX1660Super-6GB-PCIe
geforcegtx1650-pcie-4gb       = GTX1650-4GB-PCIe
geforcegtx1070-pcie-8gb       = GTX1070-8GB-PCIe
geforcegtx1060-pcie-6gb       = GTX1060-6GB-PCIe
NVIDIA H100 SXM5 80GB         = H100-80GB-SXM`,

	// gpu_name
	"vastai": `
A10             = A10
A10g            = A10G
A16             = A16
A30             = A30
A40             = A40
A100 PCIE       = A100-PCIe
A100 SXM4       = A100-SXM
A100 SXM        = A100-SXM
A100X           = A100X
A800 PCIE       = A800-PCIe
B200            = B200
GH200 SXM       = GH200
H100 PCIE       = H100-PCIe
H100 SXM        = H100-SXM
H100_SXM        = H100-SXM
H100 NVL        = H100-NVL
H200            = H200-SXM
H200 NVL        = H200-NVL
L4              = L4
L40             = L40
L40S            = L40S
Tesla K80       = K80
Tesla M40       = M40
Tesla P4        = P4
Tesla P40       = P40
Tesla P100      = P100
Tesla T4        = T4
Tesla V100      = V100
GTX 1060        = GTX1060
GTX 1070        = GTX1070
GTX 1070 Ti     = GTX1070Ti
GTX 1080        = GTX1080
GTX 1080 Ti     = GTX1080Ti
GTX 1650        = GTX1650
GTX 1650 S      = GTX1650Super
GTX 1660        = GTX1660
GTX 1660 S      = GTX1660Super
GTX 1660 Ti     = GTX1660Ti
RTX 2060        = RTX2060
RTX 2060S       = RTX2060Super
RTX 2070        = RTX2070
RTX 2070S       = RTX2070Super
RTX 2080        = RTX2080
RTX 2080S       = RTX2080Super
RTX 2080 Ti     = RTX2080Ti
RTX 3050        = RTX3050
RTX 3060        = RTX3060
RTX 3060 Ti     = RTX3060Ti
RTX 3070        = RTX3070
RTX 3070 Ti     = RTX3070Ti
RTX 3080        = RTX3080
RTX 3080 Ti     = RTX3080Ti
RTX 3090        = RTX3090
RTX_3090        = RTX3090
RTX 3090 Ti     = RTX3090Ti
RTX 4060        = RTX4060
RTX 4060 Ti     = RTX4060Ti
RTX 4070        = RTX4070
RTX 4070S       = RTX4070Super
RTX 4070 Ti     = RTX4070Ti
RTX 4070S Ti    = RTX4070TiSuper
RTX 4080        = RTX4080
RTX 4080S       = RTX4080Super
RTX 4090        = RTX4090
RTX 4090D       = RTX4090D
RTX 5060        = RTX5060
RTX 5060 Ti     = RTX5060Ti
RTX 5070        = RTX5070
RTX 5070 Ti     = RTX5070Ti
RTX 5080        = RTX5080
RTX 5090        = RTX5090
RTX 4090 laptop ! a laptop's
Titan RTX       = TitanRTX
Titan V         = TitanV
Titan Xp        = TitanXp
RTX A2000       = A2000
RTX A4000       = A4000
RTX A4500       = A4500
RTX A5000       = A5000
RTX A6000       = A6000
RTX 2000Ada     = RTX2000Ada
RTX 4000Ada     = RTX4000Ada
RTX 4500Ada     = RTX4500Ada
RTX 5000Ada     = RTX5000Ada
RTX 5880Ada     = RTX5880Ada
RTX 6000Ada     = RTX6000Ada
Q RTX 4000      = QuadroRTX4000
Q RTX 5000      = QuadroRTX5000
Q RTX 6000      = QuadroRTX6000
Q RTX 8000      = QuadroRTX8000
RTX PRO 4000    = RTXPRO4000
RTX PRO 4500    = RTXPRO4500
RTX PRO 5000    = RTXPRO5000
RTX PRO 6000    = RTXPRO6000
RTX PRO 6000 S  = RTXPRO6000
RTX PRO 6000 WS = RTXPRO6000
RTX PRO 6000 Max-Q = RTXPRO6000MaxQ
InstinctMI50    = MI50
InstinctMI100   = MI100
InstinctMI210   = MI210
InstinctMI250X  = MI250X
RX 7900 XTX     = RX7900XTX
PRO W7900       = W7900
Imaginary RTX 9999 ! no accelerator ! an example in the description`,

	// instance_type; model; gpu.description and name.
	"verda": `
1H100.80S.22V         = H100-80GB-SXM
1H100.80S.30V         = H100-80GB-SXM
8H100.80S.176V        = H100-80GB-SXM:8
1H200.141S.44V        = H200-141GB-SXM
8B200.240V            = B200:8
8B200.240V.CC         = B200:8
8B300.240V            = B300:8
GB300                 = GB300
1A100.22V             = A100-80GB-SXM
8A100.176V            = A100-80GB-SXM:8
1A100.40S.22V         = A100-40GB-SXM
1L40S.20V             = L40S
1RTX6000ADA.10V       = RTX6000Ada
1RTXPRO6000.28V       = RTXPRO6000
1A6000.10V            = A6000
8V100.48V             = V100-16GB:8
CPU.4V.16G            = cpu
H100                  = H100
7900XTX               = RX7900XTX
H100 SXM5 80GB        = H100-80GB-SXM
1x H100 SXM5 80GB     = H100-80GB-SXM
2x H200 SXM5 141GB    = H200-141GB-SXM:2
1x B200 SXM6 180GB    = B200-180GB-SXM
8x B300 SXM6 268GB    = B300-268GB-SXM:8
4x A100 SXM4 80GB     = A100-80GB-SXM:4
1x A100 SXM4 40GB     = A100-40GB-SXM
1x L40S 48GB          = L40S-48GB
1x RTX6000 Ada 48GB   = RTX6000Ada-48GB
1x RTX 6000 Ada 48GB  = RTX6000Ada-48GB
1x RTX PRO 6000 96GB  = RTXPRO6000-96GB
1x RTX A6000 48GB     = A6000-48GB
8x Tesla V100 16GB    = V100-16GB:8`,

	// gpu_type; a plan's id.
	"vultr": `
NVIDIA_A16                      = A16
NVIDIA_A40                      = A40
NVIDIA_A100                     = A100
NVIDIA_L40S                     = L40S
NVIDIA_HGX_H100                 = H100-SXM
NVIDIA_GH200                    = GH200
NVIDIA_HGX_B200                 = B200-SXM
NVIDIA_B200                     = B200
AMD_MI300X                      = MI300X
AMD_MI325X                      = MI325X
AMD_MI355X                      = MI355X
vbm-48c-1024gb-4-a100-gpu       = A100-80GB:4
vbm-112c-2048gb-8-a100-gpu      = A100-80GB:8
vbm-112c-2048gb-8-h100-gpu      = H100:8
vbm-64c-2048gb-8-l40-gpu        = L40S:8
vbm-72c-480gb-gh200-gpu         = GH200
vbm-256c-2048gb-8-mi300x-gpu    = MI300X:8
vbm-256c-3072gb-8-mi325x-gpu    = MI325X:8
vbm-256c-3072gb-8-mi355x-gpu    = MI355X:8
vbm-256c-3072gb-8-b200-gpu      = B200:8
vcg-l40s-16c-180g-48vram        = L40S-48GB
vcg-l40s-64c-720g-192vram       = L40S-48GB:4
vcg-a16-6c-64g-16vram           = A16-16GB
vcg-a16-96c-960g-256vram        = A16-16GB:16
vcg-a16-96c-878g-256vram        = A16-16GB:16
vcg-a40-24c-120g-48vram         = A40-48GB
vcg-a40-96c-480g-192vram        = A40-48GB:4
vcg-a100-12c-120g-80vram        = A100-80GB
vcg-a100-96c-960g-640vram       = A100-80GB:8
vcg-h100-216c-1914gb-640vram    = H100-80GB:8
vcg-b200-248c-2826g-1536vram    = B200-192GB:8
vcg-mi325x-252c-2872g-1536vram  = MI325X-192GB:8
vcg-mi355x-252c-2872g-2304vram  = MI355X-288GB:8
vcg-a16-2c-8g-2vram             = A16-2GB:0.125
vcg-a40-8c-40g-16vram           = A40-16GB:0.3333333333333333
vcg-a40-12c-60g-24vram          = A40-24GB:0.5
vcg-a100-6c-60g-40vram          = A100-40GB:0.5
vcg-k9-6c-60g-40vram            ! no accelerator ! a plan that is not known`,
}
