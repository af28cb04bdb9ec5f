package fingerprint

import (
	"bytes"
	"strconv"
)

// number copies a number in its canonical spelling, in which two numbers are equal if and
// only if their exact decimal values are equal:
//
//   - An integer is written out, but an exponent stands for three zeros or more at its
//     end: 4200, 42e3, and 0 for -0.
//   - A fraction is written out without zeros at its end: 19.9.
//   - Zeros between the point and the digits are counted after a z: 5z2 is 0.005.
//   - A number whose exponent has more than 18 digits is as in source.
//
// No spelling in JSON is shorter. No digit is rounded, and an exponent takes no more
// memory than its digits.
func (w *walker) number(at, out int) (end, written int) {
	end, canonical := numberEnd(w.source, at)
	switch {
	case end == malformed:
		return malformed, out
	case !canonical:
		return end, putDecimal(w.text, out, w.source[at:end])
	case end-at <= wordSize && at+wordSize <= len(w.source): // may write too much, within the capacity
		putWord(w.text, out, wordAt(w.source, at))
	default:
		copy(w.text[out:], w.source[at:end])
	}
	return end, out + end - at
}

// numberEnd returns the end of the number at source[at], or malformed, and whether the
// number is in its canonical spelling.
func numberEnd(source []byte, at int) (end int, canonical bool) {
	first := at
	if at < len(source) && source[at] == '-' {
		first++
	}
	end = skipDigits(source, first)
	if end == first || end > first+1 && source[first] == '0' {
		return malformed, false
	}
	if end < len(source) && (source[end] == '.' || lower(source[end]) == 'e') {
		return decimalEnd(source, first, end)
	}
	return end, source[end-1] != '0' || string(source[at:end]) != "-0" && string(source[max(at, end-3):end]) != "000"
}

// decimalEnd is numberEnd behind the integer part source[first:end], which begins with no
// sign.
func decimalEnd(source []byte, first, end int) (numberEnd int, canonical bool) {
	if source[end] == '.' {
		fraction := end + 1
		if end = skipDigits(source, fraction); end == fraction {
			return malformed, false
		}
		canonical = source[end-1] != '0' && (source[first] != '0' || source[fraction] != '0')
	}
	if end < len(source) && lower(source[end]) == 'e' {
		exponent := signEnd(source, end+1)
		if end = skipDigits(source, exponent); end == exponent {
			return malformed, false
		}
		return end, false
	}
	return end, canonical
}

// putDecimal puts a number of any spelling at text[out].
func putDecimal(text []byte, out int, spelled []byte) (written int) {
	start, sign := out, 0
	if spelled[0] == '-' {
		text[out] = '-'
		out, sign = out+1, 1
	}
	point := skipDigits(spelled, sign)
	whole, fraction, exponent := spelled[sign:point], spelled[point:point], spelled[point:]
	if point < len(spelled) && spelled[point] == '.' {
		end := skipDigits(spelled, point+1)
		fraction, exponent = spelled[point+1:end], spelled[end:]
	}
	// The value is the integer of all digits times ten to the power of shift.
	fraction = bytes.TrimRight(fraction, "0")
	shift := -len(fraction)
	if whole = bytes.TrimLeft(whole, "0"); len(whole) == 0 {
		fraction = bytes.TrimLeft(fraction, "0")
	}
	if len(fraction) == 0 {
		digits := bytes.TrimRight(whole, "0")
		whole, shift = digits, shift+len(whole)-len(digits)
	}
	digits := len(whole) + len(fraction)
	if digits == 0 {
		text[start] = '0'
		return start + 1
	}
	power, ok := parseExponent(exponent)
	if !ok {
		return start + copy(text[start:], spelled)
	}
	copy(text[out:], whole)
	copy(text[out+len(whole):], fraction)
	return scale(text, out, digits, power+int64(shift))
}

// scale multiplies the integer of these digits, which ends in no 0 and begins at text[out],
// with a power of ten.
func scale(text []byte, out, digits int, power int64) (written int) {
	const zeros = "00"
	end := out + digits
	switch whole := int64(digits) + power; { // digits before the point
	case power > int64(len(zeros)):
		text[end] = 'e'
		return len(strconv.AppendInt(text[:end+1], power, 10))
	case power >= 0:
		return end + copy(text[end:], zeros[:power])
	case whole > 0:
		point := out + int(whole)
		copy(text[point+1:], text[point:end])
		text[point] = '.'
		return end + 1
	case whole == 0:
		copy(text[out+2:], text[out:end])
		copy(text[out:], "0.")
		return end + 2
	default:
		text[end] = 'z'
		return len(strconv.AppendInt(text[:end+1], -whole, 10))
	}
}

// parseExponent returns the value of an exponent of at most 18 digits, which follows an e.
// An empty one is 0.
func parseExponent(spelled []byte) (power int64, ok bool) {
	if len(spelled) == 0 {
		return 0, true
	}
	start := signEnd(spelled, 1)
	digits := bytes.TrimLeft(spelled[start:], "0")
	if len(digits) > 18 {
		return 0, false
	}
	for _, digit := range digits {
		power = 10*power + int64(digit-'0')
	}
	if spelled[1] == '-' {
		power = -power
	}
	return power, true
}

// skipDigits returns the end of the digits at source[at].
func skipDigits(source []byte, at int) (end int) {
	for at < len(source) && source[at]-'0' <= 9 {
		at++
	}
	return at
}

// signEnd returns the end of an optional sign.
func signEnd(source []byte, at int) (end int) {
	if at < len(source) && (source[at] == '+' || source[at] == '-') {
		return at + 1
	}
	return at
}
