package holographic

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"sync"
)

// A vector consists of angles from 0 to 2π. Unrelated vectors have a similarity of
// about 0.
type vector []float64

const turn = 2 * math.Pi

// Names of the vectors of parts of a fact, and of a text without words.
const (
	roleContent = "__hrr_role_content__"
	roleEntity  = "__hrr_role_entity__"
	emptyText   = "__hrr_empty__"
)

// float32Mark begins vectors of newer versions of upstream, which have 4 bytes per angle.
const float32Mark = "HRR1"

// units returns cosine and sine of each angle that an atom can have.
var units = sync.OnceValue(func() []complex128 {
	all := make([]complex128, 1<<16)
	for i := range all {
		sin, cos := math.Sincos(float64(i) * (turn / (1 << 16)))
		all[i] = complex(cos, sin)
	}
	return all
})

// An encoder computes vectors with that many angles.
type encoder int

// steps returns the vector of a word, its angles in units of 2π/65536.
func (e encoder) steps(word string) []uint16 {
	s, name := make([]uint16, 0, e+15), []byte(word+":")
	for block := 0; len(s) < int(e); block++ {
		sum := sha256.Sum256(strconv.AppendInt(name, int64(block), 10))
		for i := 0; i < len(sum); i += 2 {
			s = append(s, binary.LittleEndian.Uint16(sum[i:]))
		}
	}
	return s[:e]
}

// atom returns the vector of a word.
func (e encoder) atom(word string) vector {
	v := make(vector, e)
	for i, s := range e.steps(word) {
		v[i] = float64(s) * (turn / (1 << 16))
	}
	return v
}

// text returns the vector of a text: the mean of its words, in any order.
func (e encoder) text(s string) vector {
	sum, known, all := make([]complex128, e), map[string][]uint16{}, units()
	for word := range strings.FieldsSeq(strings.ToLower(s)) {
		if word = strings.Trim(word, `.,!?;:"'()[]{}`); word == "" {
			continue
		}
		steps := known[word]
		if steps == nil {
			steps = e.steps(word)
			known[word] = steps
		}
		for i, s := range steps {
			sum[i] += all[s]
		}
	}
	if len(known) == 0 {
		return e.atom(emptyText)
	}
	return angles(sum)
}

// fact returns the vector of a fact: the mean of its content and its entities, each bound
// to its role.
func (e encoder) fact(content string, entities []string) vector {
	parts := []vector{bind(e.text(content), e.atom(roleContent))}
	for _, name := range entities {
		parts = append(parts, e.entity(name))
	}
	return bundle(parts)
}

// entity returns the vector of an entity in its role.
func (e encoder) entity(name string) vector {
	return bind(e.atom(strings.ToLower(name)), e.atom(roleEntity))
}

func bind(a, b vector) vector {
	v := make(vector, len(a))
	for i := range v {
		v[i] = wrap(a[i] + b[i])
	}
	return v
}

// bundle returns the mean of vectors.
func bundle(vs []vector) vector {
	sum := make([]complex128, len(vs[0]))
	for _, v := range vs {
		for i, angle := range v {
			sin, cos := math.Sincos(angle)
			sum[i] += complex(cos, sin)
		}
	}
	return angles(sum)
}

func angles(sum []complex128) vector {
	v := make(vector, len(sum))
	for i, z := range sum {
		v[i] = wrap(math.Atan2(imag(z), real(z)))
	}
	return v
}

func wrap(angle float64) float64 {
	if angle = math.Mod(angle, turn); angle < 0 {
		angle += turn
	}
	return angle
}

// similarity returns from -1 to 1 how alike vectors are.
func similarity(a, b vector) float64 {
	sum := 0.0
	for i, angle := range a {
		sum += math.Cos(angle - b[i])
	}
	return sum / float64(len(a))
}

// encode returns a vector as it is stored.
func encode(v vector) []byte {
	b := make([]byte, 0, 8*len(v))
	for _, angle := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(angle))
	}
	return b
}

// decode reads a stored vector into v. It reports whether it has as many angles as v.
func decode(v vector, b []byte) bool {
	finite := true
	switch {
	case len(b) == 8*len(v):
		for i := range v {
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
			finite = finite && math.Abs(v[i]) < 1e6
		}
	case len(b) == len(float32Mark)+4*len(v) && string(b[:len(float32Mark)]) == float32Mark:
		for i := range v {
			v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[len(float32Mark)+4*i:])))
			finite = finite && math.Abs(v[i]) < 1e6
		}
	default:
		return false
	}
	return finite
}
