package holographic

// Exported for tests.
var (
	MatchQuery = matchQuery
	Entities   = entities
	Extract    = extract
	Decode     = decode
	Encode     = encode
	Bind       = bind
	Unbind     = unbind
)

type Vector = vector

func Similarity(a, b Vector) float64                    { return similarity(a, b) }
func Atom(word string, dim int) Vector                  { return newEncoder(dim).atom(word) }
func Text(s string, dim int) Vector                     { return newEncoder(dim).text(s) }
func FactVector(s string, names []string, n int) Vector { return newEncoder(n).fact(s, names) }
func Bundle(vs ...Vector) Vector                        { return bundle(vs) }
