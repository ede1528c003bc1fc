package onnx

import "math"

// BFloat16Bits rounds to nearest even; NaN stays NaN.
func BFloat16Bits(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + (u>>16)&1) >> 16)
}

// BFloat16Value widens a bfloat16.
func BFloat16Value(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// Float16Bits rounds to nearest even; values out of range become infinite.
func Float16Bits(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u>>16) & 0x8000
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000: // NaN
		return sign | 0x7e00
	case u >= 0x47800000: // 65536 and above, or infinity
		return sign | 0x7c00
	case u < 0x38800000: // below 2^-14: subnormal half
		// adding 0.5 aligns the 10 bits of a subnormal half (steps of 2^-24) at the end of the mantissa and rounds to
		// even
		return sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)-0x3f000000)
	}
	return sign | uint16((u-0x38000000+0xfff+(u>>13)&1)>>13)
}

// Float16Value widens a float16.
func Float16Value(h uint16) float32 {
	sign, exp, man := uint32(h&0x8000)<<16, uint32(h>>10)&0x1f, uint32(h&0x3ff)
	switch exp {
	case 0:
		v := float32(man) / (1 << 24)
		if sign != 0 {
			return -v
		}
		return v
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}
