//! The formulas of case files: parsed once, evaluated in float64 at each index of a tensor.

use crate::generate::{noise, normal, unit};

/// A parsed formula.
#[derive(Clone, PartialEq, Debug)]
pub struct Formula(Node);

#[derive(Clone, PartialEq, Debug)]
enum Node {
    Number(f64),
    Name(char),
    Unary(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Call(String, Vec<Node>),
    /// A function of the whole tensor, evaluated beforehand.
    Table(Vec<f64>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Floor,
    Mod,
    Pow,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

/// Which axis of a tensor each index name stands for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Axes {
    /// Extents, slowest first; an axis of stride 0 has extent 1.
    pub shape: Vec<u64>,
    /// Token, query, key or matrix row.
    pub r: Option<usize>,
    /// Head.
    pub h: Option<usize>,
    /// Batch.
    pub b: Option<usize>,
    /// Quantisation group.
    pub g: Option<usize>,
}

impl Axes {
    fn last(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    fn at(&self, i: u64, axis: Option<usize>) -> u64 {
        axis.map_or(0, |a| i / self.shape[a + 1..].iter().product::<u64>().max(1) % self.shape[a].max(1))
    }

    fn index(&self, name: char, i: u64) -> u64 {
        match name {
            'i' => i,
            'c' => i % self.last().max(1),
            'r' => self.at(i, self.r),
            'h' => self.at(i, self.h),
            'b' => self.at(i, self.b),
            _ => self.at(i, self.g),
        }
    }
}

/// Name, fewest and most arguments.
const FUNCTIONS: [(&str, usize, usize); 25] = [
    ("const", 1, 1),
    ("list", 1, 4096),
    ("arange", 2, 2),
    ("linspace", 2, 2),
    ("rows", 1, 4096),
    ("by_group", 1, 4096),
    ("by_col_group", 2, 4096),
    ("where", 3, 3),
    ("log", 1, 1),
    ("softmax", 1, 1),
    ("spike", 3, 3),
    ("set_at", 3, 4096),
    ("set_col", 3, 4096),
    ("channel0", 1, 1),
    ("all_false_row", 1, 1),
    ("all_neg_inf_row", 1, 1),
    ("neg_inf_rows", 1, 4096),
    ("u", 2, 2),
    ("uniform", 3, 3),
    ("bernoulli", 2, 2),
    ("normal", 1, 1),
    ("perm", 1, 1),
    ("zeros", 0, 0),
    ("empty", 0, 0),
    ("eye", 0, 0),
];

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Number(f64),
    Word(String),
    Sign(&'static str),
}

const SIGNS: [&str; 19] = ["**", "//", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "(", ")", ",", "="];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|d: char| d.is_ascii_digit())) {
            let hex = rest.strip_prefix("0x");
            let len = if let Some(hex) = hex {
                2 + hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len())
            } else {
                let bytes = rest.as_bytes();
                let mut n = 0;
                while n < bytes.len() {
                    let exponent = matches!(bytes[n], b'+' | b'-') && n > 0 && matches!(bytes[n - 1], b'e' | b'E');
                    if !(bytes[n].is_ascii_digit() || matches!(bytes[n], b'.' | b'e' | b'E') || exponent) {
                        break;
                    }
                    n += 1;
                }
                n
            };
            let word = &rest[..len];
            let value = if hex.is_some() { u64::from_str_radix(&word[2..], 16).ok().map(|x| x as f64) } else { word.parse().ok() };
            out.push(Token::Number(value.ok_or_else(|| format!("`{word}` is no number"))?));
            rest = &rest[len..];
        } else if c.is_ascii_alphabetic() || c == '_' {
            let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            out.push(Token::Word(rest[..len].into()));
            rest = &rest[len..];
        } else {
            let sign = SIGNS.into_iter().find(|s| rest.starts_with(s)).ok_or_else(|| format!("`{c}` in `{text}`"))?;
            out.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Ok(out)
}

/// Formulas nest no deeper than this, so that no text overflows the stack.
const MAX_DEPTH: usize = 64;

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn sign(&mut self, wanted: &[&'static str]) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Sign(s)) if wanted.contains(s) => {
                self.at += 1;
                Some(s)
            }
            _ => None,
        }
    }

    fn expect(&mut self, s: &'static str) -> Result<(), String> {
        self.sign(&[s]).map(|_| ()).ok_or_else(|| format!("expected `{s}`"))
    }

    /// As in Python: comparisons bind least and chain, then `|`, `&`, sums, products, signs, powers.
    fn expression(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("nested too deeply".into());
        }
        let mut left = self.level(0)?;
        let mut chain: Option<Node> = None;
        while let Some(s) = self.sign(&["==", "!=", "<=", ">=", "<", ">"]) {
            let op = match s {
                "==" => Binary::Eq,
                "!=" => Binary::Ne,
                "<=" => Binary::Le,
                ">=" => Binary::Ge,
                "<" => Binary::Lt,
                _ => Binary::Gt,
            };
            let right = self.level(0)?;
            let link = Node::Binary(op, Box::new(left), Box::new(right.clone()));
            chain = Some(match chain {
                Some(c) => Node::Binary(Binary::And, Box::new(c), Box::new(link)),
                None => link,
            });
            left = right;
        }
        self.depth -= 1;
        Ok(chain.unwrap_or(left))
    }

    fn level(&mut self, level: usize) -> Result<Node, String> {
        const LEVELS: [&[&str]; 4] = [&["|"], &["&"], &["+", "-"], &["*", "/", "//", "%"]];
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.level(level + 1)?;
        while let Some(s) = self.sign(signs) {
            let op = match s {
                "|" => Binary::Or,
                "&" => Binary::And,
                "+" => Binary::Add,
                "-" => Binary::Sub,
                "*" => Binary::Mul,
                "/" => Binary::Div,
                "//" => Binary::Floor,
                _ => Binary::Mod,
            };
            left = Node::Binary(op, Box::new(left), Box::new(self.level(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("nested too deeply".into());
        }
        let node = match self.sign(&["-", "+"]) {
            Some("-") => Node::Unary(Box::new(self.unary()?)),
            Some(_) => self.unary()?,
            None => {
                let base = self.atom()?;
                if self.sign(&["**"]).is_some() { Node::Binary(Binary::Pow, Box::new(base), Box::new(self.unary()?)) } else { base }
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node, String> {
        if self.sign(&["("]).is_some() {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let token = self.tokens.get(self.at).cloned().ok_or("the formula ends too early")?;
        self.at += 1;
        let word = match token {
            Token::Number(x) => return Ok(Node::Number(x)),
            Token::Sign(s) => return Err(format!("`{s}` where a value was expected")),
            Token::Word(w) => w,
        };
        let mut args = Vec::new();
        let called = self.sign(&["("]).is_some();
        if called && self.sign(&[")"]).is_none() {
            loop {
                args.push(self.expression()?);
                if self.sign(&[","]).is_none() {
                    break;
                }
            }
            self.expect(")")?;
        }
        if !called {
            match word.as_str() {
                "inf" => return Ok(Node::Number(f64::INFINITY)),
                "nan" => return Ok(Node::Number(f64::NAN)),
                "i" | "c" | "r" | "h" | "b" | "g" => return Ok(Node::Name(word.chars().next().unwrap_or('i'))),
                _ => {}
            }
        }
        let Some((_, least, most)) = FUNCTIONS.iter().find(|f| f.0 == word) else {
            return Err(format!("unknown name `{word}`"));
        };
        if !(least..=most).contains(&&args.len()) || called != (*most > 0) {
            return Err(format!("{word}: {} arguments", args.len()));
        }
        match word.as_str() {
            "set_at" | "set_col" if args.len() % 2 == 0 => Err(format!("{word}: a place without a value")),
            "u" | "uniform" | "bernoulli" | "normal" | "perm" if !matches!(args[0], Node::Number(x) if x >= 0.0 && x.fract() == 0.0) => {
                Err(format!("{word}: the seed is no whole number"))
            }
            _ => Ok(Node::Call(word, args)),
        }
    }
}

impl std::str::FromStr for Formula {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut p = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
        let node = p.expression()?;
        if p.at < p.tokens.len() {
            return Err(format!("`{text}`: more behind its end"));
        }
        Ok(Formula(node))
    }
}

fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}

fn seed(node: &Node) -> u64 {
    if let Node::Number(x) = node { *x as u64 } else { 0 }
}

impl Node {
    fn eval(&self, axes: &Axes, i: u64) -> f64 {
        match self {
            Node::Number(x) => *x,
            Node::Name(n) => axes.index(*n, i) as f64,
            Node::Unary(x) => -x.eval(axes, i),
            Node::Table(v) => v.get(i as usize).copied().unwrap_or(f64::NAN),
            Node::Binary(op, x, y) => {
                let (x, y) = (x.eval(axes, i), y.eval(axes, i));
                match op {
                    Binary::Add => x + y,
                    Binary::Sub => x - y,
                    Binary::Mul => x * y,
                    Binary::Div => x / y,
                    Binary::Floor => (x / y).floor(),
                    // the sign of the divisor, as in Python
                    Binary::Mod => {
                        let r = x % y;
                        if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
                    }
                    Binary::Pow => x.powf(y),
                    Binary::Eq => truth(x == y),
                    Binary::Ne => truth(x != y),
                    Binary::Lt => truth(x < y),
                    Binary::Le => truth(x <= y),
                    Binary::Gt => truth(x > y),
                    Binary::Ge => truth(x >= y),
                    Binary::And => truth(x != 0.0 && y != 0.0),
                    Binary::Or => truth(x != 0.0 || y != 0.0),
                }
            }
            Node::Call(name, args) => Self::call(name, args, axes, i),
        }
    }

    fn call(name: &str, args: &[Node], axes: &Axes, i: u64) -> f64 {
        let (c, r) = (axes.index('c', i), axes.index('r', i));
        let arg = |n: usize| args[n].eval(axes, i);
        let pick = |list: &[Node], n: u64| list.get(n as usize).map_or(f64::NAN, |x| x.eval(axes, i));
        match name {
            "const" => arg(0),
            "zeros" | "empty" => 0.0,
            "eye" => truth(r == c),
            "list" => pick(args, if args.len() as u64 == axes.last() { c } else { r }),
            "arange" => arg(0) + arg(1) * i as f64,
            "linspace" => {
                let n = axes.last();
                if n > 1 { arg(0) + (arg(1) - arg(0)) * c as f64 / (n - 1) as f64 } else { arg(0) }
            }
            "rows" => pick(args, r),
            "by_group" => pick(args, axes.index('g', i)),
            "by_col_group" => pick(&args[1..], (c as f64 / arg(0).max(1.0)) as u64),
            "where" => arg(if arg(0) != 0.0 { 1 } else { 2 }),
            "log" => arg(0).ln(),
            "spike" => {
                if r as f64 == arg(0) && c as f64 == arg(1) {
                    arg(2)
                } else {
                    0.0
                }
            }
            "set_at" | "set_col" => {
                let at = if name == "set_at" { i } else { c } as f64;
                args[1..].chunks(2).rev().find(|p| p[0].eval(axes, i) == at).map_or_else(|| arg(0), |p| p[1].eval(axes, i))
            }
            "channel0" => {
                if c == 0 {
                    arg(0)
                } else {
                    0.0
                }
            }
            "all_false_row" => truth(r as f64 != arg(0)),
            "all_neg_inf_row" | "neg_inf_rows" => {
                if args.iter().any(|a| a.eval(axes, i) == r as f64) {
                    f64::NEG_INFINITY
                } else {
                    0.0
                }
            }
            "u" => unit(seed(&args[0]), arg(1) as u64),
            "uniform" => arg(1) + (arg(2) - arg(1)) * unit(seed(&args[0]), i),
            "bernoulli" => truth(unit(seed(&args[0]), i) < arg(1)),
            "normal" => normal(seed(&args[0]), i),
            _ => f64::NAN,
        }
    }

    fn prepare(&mut self, axes: &Axes) -> Result<(), String> {
        match self {
            Node::Unary(x) => x.prepare(axes),
            Node::Binary(_, x, y) => x.prepare(axes).and_then(|()| y.prepare(axes)),
            Node::Call(name, args) => {
                args.iter_mut().try_for_each(|a| a.prepare(axes))?;
                let len: u64 = axes.shape.iter().product();
                let rows = axes.r.map_or(1, |a| axes.shape[a]);
                if name == "list" && len > 0 && args.len() as u64 != axes.last() && args.len() as u64 != rows {
                    return Err(format!("a list of {} for a shape of {:?}", args.len(), axes.shape));
                }
                if name == "rows" && len > 0 && args.len() as u64 != rows {
                    return Err(format!("rows of {} for {rows} rows", args.len()));
                }
                if !matches!(name.as_str(), "softmax" | "perm") {
                    return Ok(());
                }
                if len > 1 << 26 {
                    return Err(format!("{name} of {len} elements"));
                }
                let table = if name == "perm" {
                    let z: Vec<u64> = (0..len).map(|i| noise(seed(&args[0]), i)).collect();
                    let mut order: Vec<usize> = (0..z.len()).collect();
                    order.sort_by_key(|&i| z[i]);
                    let mut rank = vec![0.0; z.len()];
                    order.iter().enumerate().for_each(|(n, &i)| rank[i] = n as f64);
                    rank
                } else {
                    let mut x: Vec<f64> = (0..len).map(|i| args[0].eval(axes, i)).collect();
                    for row in x.chunks_mut(axes.last().max(1) as usize) {
                        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        row.iter_mut().for_each(|v| *v = (*v - max).exp());
                        let sum: f64 = row.iter().sum();
                        row.iter_mut().for_each(|v| *v /= sum);
                    }
                    x
                };
                *self = Node::Table(table);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Formula {
    /// The formula for a tensor: functions of the whole tensor are evaluated now.
    ///
    /// # Errors
    /// A list that does not fit the tensor.
    pub fn over<'a>(&self, axes: &'a Axes) -> Result<impl Fn(u64) -> f64 + Sync + use<'a>, String> {
        let mut node = self.0.clone();
        node.prepare(axes)?;
        Ok(move |i| node.eval(axes, i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, shape: &[u64], i: u64) -> f64 {
        let axes = Axes { shape: shape.to_vec(), r: shape.len().checked_sub(2), b: (shape.len() > 2).then_some(0), ..Axes::default() };
        let f = text.parse::<Formula>().unwrap().over(&axes).unwrap();
        f(i)
    }

    #[test]
    fn operators_are_pythons() {
        for (text, want) in [
            ("-7 % 3", 2.0),
            ("7 % -3", -2.0),
            ("-7 // 2", -4.0),
            ("-2**2", -4.0),
            ("2.0**-(1+1)", 0.25),
            ("2**3**2", 512.0),
            ("1 + 2*3 - 4/8", 6.5),
            ("1 < 2 < 3", 1.0),
            ("3 > 2 > 2", 0.0),
            ("(1 == 1) & (2 != 2) | (1 >= 1)", 1.0),
            ("0x7e + 1e-3*0", 126.0),
            ("where(2 > 1, 3, 4)", 3.0),
            ("const(-inf)", f64::NEG_INFINITY),
            ("6e-8*(5 % 17)", 6e-8 * 5.0),
        ] {
            assert_eq!(at(text, &[4], 0), want, "{text}");
        }
    }

    #[test]
    fn functions_follow_the_header() {
        assert_eq!(at("(7*r+13*c) % 31 - 15", &[3, 5], 8), f64::from((7 + 13 * 3) % 31 - 15));
        assert_eq!(at("rows(list(1,2,3),list(4,5,6))", &[2, 3], 4), 5.0);
        assert_eq!(at("list(7,8)", &[2, 3], 3), 8.0);
        assert_eq!(at("set_col(zeros, 2, log(2))", &[2, 3], 5), 2f64.ln());
        assert_eq!(at("spike(1,2,9.0)", &[2, 3], 5), 9.0);
        assert_eq!(at("b % 256 + arange(1, 2)", &[2, 1, 2], 3), 8.0);
        assert_eq!(at("by_col_group(2, 1, 5)", &[1, 4], 2), 5.0);
        // one more than the largest state of seed 0: the first output of splitmix64
        assert_eq!(noise(0, 0), 0xE220_A839_7B1D_CDAF);
        let ranks: Vec<f64> = (0..5).map(|i| at("perm(3)", &[5], i)).collect();
        let mut sorted = ranks.clone();
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, [0.0, 1.0, 2.0, 3.0, 4.0]);
        let p: f64 = (0..4).map(|i| at("softmax(normal(1))", &[4], i)).sum();
        assert!((p - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_unknown_is_rejected() {
        for text in ["", "foo(1)", "1 +", "(1", "1 2", "normal(x)", "normal(0.5)", "set_at(zeros, 1)", "zeros()", "normal", "@", "x", "list()"] {
            assert!(text.parse::<Formula>().is_err(), "{text}");
        }
        assert!("(".repeat(100_000).parse::<Formula>().is_err());
        assert!("-".repeat(100_000).parse::<Formula>().is_err());
        assert!("list(1,2,3)".parse::<Formula>().unwrap().over(&Axes { shape: vec![2], ..Axes::default() }).is_err());
    }
}
