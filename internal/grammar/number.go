package grammar

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// The maximum number of digits before and after the decimal point. Exponents are not allowed. Without a limit a model
// may never stop writing digits.
const (
	wholeDigits = 12
	places      = 6
)

// tens are powers of ten.
var tens = func() (t [wholeDigits + places + 1]int64) {
	t[0] = 1
	for i := 1; i < len(t); i++ {
		t[i] = 10 * t[i-1]
	}
	return t
}()

// number is the rest of a decimal number: left digits before the point, and up to behind digits after it. In units of
// the last place it is an integer from low to high.
type number struct {
	left      int // digits still to come before the point; -1: the point is past
	behind    int // digits after the point that may still come
	begun     bool
	low, high int64
}

// digits returns n with its range clipped to what its digits can express; nil if that range is empty.
func digits(n number) expr {
	n.low, n.high = max(n.low, 0), min(n.high, tens[max(n.left, 0)+n.behind]-1)
	if n.low > n.high {
		return nil
	}
	return n
}

func (n number) done() bool {
	return n.low == 0 && (n.left == 0 || n.left < 0 && n.begun)
}

func (n number) least() int {
	before, from := max(n.left, 0), 0
	if n.left < 0 && !n.begun {
		from = 1
	}
	for k := from; k <= n.behind; k++ { // is a number with k decimal places in the range?
		step := tens[n.behind-k]
		if (n.low+step-1)/step*step > n.high {
			continue
		}
		if n.left >= 0 && k > 0 {
			k++ // the point
		}
		return before + k
	}
	return before // unreachable: with all places there is one
}

func (n number) after(b byte) expr {
	if b == '.' && n.left == 0 && n.behind > 0 {
		n.left = -1
		return digits(n)
	}
	if b < '0' || b > '9' || n.left == 0 || n.left < 0 && n.behind == 0 {
		return nil
	}
	if n.left > 0 {
		n.left--
	} else {
		n.behind--
		n.begun = true
	}
	value := int64(b-'0') * tens[max(n.left, 0)+n.behind]
	n.low, n.high = n.low-value, n.high-value
	return digits(n)
}

func (n number) key() string {
	return fmt.Sprintf("<%d.%d%t %d..%d>", n.left, n.behind, n.begun, n.low, n.high)
}

// decimals is the language of the numbers from low to high, only integers if whole is set. It is an error if none of
// them can be written within the limits.
func decimals(low, high float64, whole bool) (expr, error) {
	behind := places
	if whole {
		behind = 0
	}
	from, to := units(low, behind, true), units(high, behind, false)
	var all []expr
	positive := func(low, high int64, sign string) {
		for n := 1; n <= wholeDigits; n++ {
			least := low
			if n > 1 { // no leading zero
				least = max(least, tens[n-1+behind])
			}
			if e := digits(number{left: n, behind: behind, low: least, high: high}); e != nil {
				all = append(all, then(literal(sign), e))
			}
		}
	}
	positive(max(from, 0), to, "")
	positive(max(-to, 1), -from, "-")
	if len(all) == 0 {
		return nil, fmt.Errorf("no number with at most %d digits before and %d after the point is between %v and %v",
			wholeDigits, behind, low, high)
	}
	return either(all...), nil
}

// units returns x in units of the last place, rounded up or down to an integer and clipped to what can be written.
func units(x float64, behind int, up bool) int64 {
	most := tens[wholeDigits+behind] - 1
	if math.Abs(x) >= float64(tens[wholeDigits]) {
		if x < 0 {
			return -most - bump(!up)
		}
		return most + bump(up)
	}
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'f', -1, 64)) // as written in decimal, not the binary value
	r.Mul(r, new(big.Rat).SetInt64(tens[behind]))
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	n := q.Int64()
	if rest.Sign() > 0 && up {
		n++
	} else if rest.Sign() < 0 && !up {
		n--
	}
	return n
}

// bump moves a limit out of reach: no number that large can be written.
func bump(out bool) int64 {
	if out {
		return 1
	}
	return 0
}
