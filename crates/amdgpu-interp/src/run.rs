//! Launches: workgroups, their waves, and who runs when.

use crate::lds::Lds;
use crate::memory::Region;
use crate::object::Kernel;
use crate::op::Class;
use crate::wave::{Env, Flow, Wave};
use crate::{CodeObject, Counts, Fault, Memory};
use rayon::prelude::*;
use std::sync::Mutex;

/// A kernel launch.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// Bytes of shared memory beyond those that the kernel has anyway.
    pub dynamic_lds: u32,
    /// Explicit arguments, as they lie in memory.
    pub kernarg: &'a [u8],
}

/// The order in which waves of a workgroup run up to their next barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By number.
    Ascending,
    /// From the last.
    Descending,
    /// Another one each time, drawn from a seed.
    Shuffled(u64),
}

/// What to check, and how to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Reads of shared memory that nobody wrote.
    pub uninitialised: bool,
    /// Races on shared memory.
    pub races: bool,
    /// Uses of registers before the wait for their load.
    pub waits: bool,
    /// Who runs first.
    pub order: Order,
    /// Instructions that a wave may execute.
    pub max_instructions: u64,
    /// Run workgroups in parallel.
    pub parallel: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { uninitialised: true, races: true, waits: true, order: Order::Ascending, max_instructions: 1 << 32, parallel: true }
    }
}

/// Lanes that are not known, of each register that an instruction writes.
type Unknown = Vec<u64>;

/// What all workgroups of a launch share.
struct Job<'a> {
    kernel: &'a Kernel,
    code: &'a CodeObject,
    launch: &'a Launch<'a>,
    regions: &'a [Region],
    kernarg: u64,
    packet: u64,
    options: &'a Options,
}

/// Frees what a launch allocates for itself.
struct Own<'a> {
    memory: &'a Memory,
    address: u64,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.memory.free(self.address);
    }
}

/// Executes a kernel to its end.
///
/// # Errors
/// [`Fault`], of the first workgroup in the order of their numbers that has one.
pub fn run(kernel: &Kernel, code: &CodeObject, launch: &Launch<'_>, memory: &Memory, options: &Options) -> Result<Counts, Fault> {
    let refuse = |what: String| Fault::Launch { kernel: kernel.name.clone(), what };
    let items = launch.block.iter().map(|&n| u64::from(n)).product::<u64>();
    if items == 0 || items > kernel.max_block.into() {
        return Err(refuse(format!("{items} work-items of a workgroup, at most {} may be", kernel.max_block)));
    }
    if u64::from(kernel.lds) + u64::from(launch.dynamic_lds) > code.isa().lds().into() {
        return Err(refuse(format!(
            "{} bytes of shared memory, there are {}",
            u64::from(kernel.lds) + u64::from(launch.dynamic_lds),
            code.isa().lds()
        )));
    }
    if launch.kernarg.len() > kernel.kernarg_bytes as usize {
        return Err(refuse(format!("{} bytes of arguments, it takes {}", launch.kernarg.len(), kernel.kernarg_bytes)));
    }
    let groups = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
    let own =
        |bytes: u64| memory.alloc(bytes).map(|address| Own { memory, address }).ok_or_else(|| refuse("no memory is left for its arguments".into()));
    let (kernarg, packet) = (own(u64::from(kernel.kernarg_bytes).max(16))?, own(64)?);
    memory.write(kernarg.address, &arguments(kernel, launch))?;
    memory.write(packet.address, &dispatch_packet(kernel, launch, kernarg.address))?;
    let regions = memory.snapshot();
    let job = Job { kernel, code, launch, regions: &regions, kernarg: kernarg.address, packet: packet.address, options };
    // the first fault by number, whichever thread meets one first
    let first: Mutex<Option<(u64, Fault)>> = Mutex::new(None);
    let one = |g: u64| -> Counts {
        let lock = || first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lock().as_ref().is_some_and(|f| f.0 < g) {
            return Counts::default();
        }
        match job.workgroup(g) {
            Ok(counts) => counts,
            Err(fault) => {
                let mut first = lock();
                if first.as_ref().is_none_or(|f| g < f.0) {
                    *first = Some((g, fault));
                }
                Counts::default()
            }
        }
    };
    let add = |mut a: Counts, b: Counts| {
        a += b;
        a
    };
    let counts = if options.parallel {
        (0..groups).into_par_iter().map(one).reduce(Counts::default, add)
    } else {
        (0..groups).map(one).fold(Counts::default(), add)
    };
    match first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some((_, fault)) => Err(fault),
        None => Ok(counts),
    }
}

/// Explicit arguments, then hidden ones where the metadata says (LLVM, AMDGPU usage, code object v5).
fn arguments(kernel: &Kernel, launch: &Launch<'_>) -> Vec<u8> {
    let mut all = vec![0; kernel.kernarg_bytes as usize];
    all[..launch.kernarg.len()].copy_from_slice(launch.kernarg);
    for h in &kernel.hidden {
        let axis = |name: &str| "xyz".find(h.kind.strip_prefix(name).unwrap_or("?"));
        let value = if let Some(i) = axis("block_count_") {
            u64::from(launch.grid[i])
        } else if let Some(i) = axis("group_size_") {
            u64::from(launch.block[i])
        } else if h.kind == "grid_dims" {
            3
        } else if h.kind == "dynamic_lds_size" {
            launch.dynamic_lds.into()
        } else {
            0
        };
        if let Some(to) = all.get_mut(h.offset..h.offset + h.bytes) {
            to.copy_from_slice(&value.to_le_bytes()[..h.bytes.min(8)]);
        }
    }
    all
}

/// The AQL packet that a kernel may look at (HSA runtime specification, `hsa_kernel_dispatch_packet_t`).
fn dispatch_packet(kernel: &Kernel, launch: &Launch<'_>, kernarg: u64) -> Vec<u8> {
    let mut p = vec![0; 64];
    p[2] = 3;
    for i in 0..3 {
        p[4 + 2 * i..6 + 2 * i].copy_from_slice(&(launch.block[i] as u16).to_le_bytes());
        p[12 + 4 * i..16 + 4 * i].copy_from_slice(&launch.grid[i].saturating_mul(launch.block[i]).to_le_bytes());
    }
    p[24..28].copy_from_slice(&kernel.scratch.to_le_bytes());
    p[28..32].copy_from_slice(&(kernel.lds + launch.dynamic_lds).to_le_bytes());
    p[40..48].copy_from_slice(&kernarg.to_le_bytes());
    p
}

impl Job<'_> {
    /// The registers of a wave as the hardware sets them up (LLVM, AMDGPU usage, "Initial Kernel Execution State").
    fn wave(&self, number: usize, group: [u32; 3]) -> Result<Wave, String> {
        let k = self.kernel;
        let mut w = Wave::new(number, k.wave, k.entry, self.code.registers);
        let block = self.launch.block;
        let items = block[0] * block[1] * block[2];
        let first = number as u32 * k.wave;
        let on = (items - first).min(k.wave);
        w.set_pair(crate::text::EXEC, 0);
        w.set_exec(if on == 64 { u64::MAX } else { (1 << on) - 1 });
        for lane in 0..k.wave as usize {
            let item = first + lane as u32;
            // three ids in ten bits each
            w.v[0][lane] = item % block[0] | (item / block[0] % block[1]) << 10 | (item / block[0] / block[1]) << 20;
        }
        w.known[0] = w.full;
        let mut next = 0u16;
        let mut take = |count: u16, value: u64, w: &mut Wave| {
            w.s[next as usize] = value as u32;
            if count > 1 {
                w.s[next as usize + 1] = (value >> 32) as u32;
            }
            next += count;
        };
        if k.scratch > 0 || k.dynamic_stack {
            // called functions whose frames the compiler did not count
            w.private_bytes = k.scratch + if k.dynamic_stack { 16 << 10 } else { 0 };
            w.private = vec![0xd5; (w.private_bytes * k.wave) as usize];
        }
        // by the bits of KERNEL_CODE_PROPERTIES: private segment buffer, dispatch packet, queue, arguments, dispatch id, flat scratch, its size.
        // A wave's private memory begins at offset 0 of nothing; queue and dispatch id are null.
        for (bit, count, value) in [(0, 4, 0), (1, 2, self.packet), (2, 2, 0), (3, 2, self.kernarg), (4, 2, 0), (5, 2, 0), (6, 1, 0)] {
            if k.properties >> bit & 1 == 1 {
                take(count, value, &mut w);
            }
        }
        // the compiler may have asked for more user registers than it fills
        let mut next = k.rsrc[1] >> 1 & 31;
        let mut take = |value: u32| {
            w.s[next as usize] = value;
            next += 1;
        };
        for (i, &g) in group.iter().enumerate() {
            if k.rsrc[1] >> (7 + i) & 1 == 1 {
                take(g);
            }
        }
        // where the wave's private memory begins
        if k.rsrc[1] & 1 == 1 {
            take(0);
        }
        Ok(w)
    }

    fn workgroup(&self, g: u64) -> Result<Counts, Fault> {
        let grid = self.launch.grid.map(u64::from);
        let group = [(g % grid[0]) as u32, (g / grid[0] % grid[1]) as u32, (g / grid[0] / grid[1]) as u32];
        let k = self.kernel;
        let items = self.launch.block.iter().product::<u32>();
        let o = self.options;
        let mut env = Env {
            lds: Lds::new((k.lds + self.launch.dynamic_lds) as usize, o.races, o.uninitialised),
            memory: self.regions,
            last: Region { start: 0, bytes: 0 },
            counts: Counts::default(),
        };
        let mut waves = (0..items.div_ceil(k.wave) as usize)
            .map(|i| self.wave(i, group))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|what| Fault::Launch { kernel: k.name.clone(), what })?;
        let mut order: Vec<usize> = (0..waves.len()).collect();
        let mut draw = if let Order::Shuffled(seed) = o.order { seed ^ g.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 } else { 0 };
        loop {
            match o.order {
                Order::Ascending => {}
                Order::Descending => order.reverse(),
                Order::Shuffled(_) => {
                    for i in (1..order.len()).rev() {
                        // xorshift64 (Marsaglia, 2003)
                        draw ^= draw << 13;
                        draw ^= draw >> 7;
                        draw ^= draw << 17;
                        order.swap(i, (draw % (i as u64 + 1)) as usize);
                    }
                }
            }
            let (mut ended, mut waiting) = (None, None);
            for &i in &order {
                let w = &mut waves[i];
                if w.ended {
                    continue;
                }
                match self.until_barrier(w, &mut env) {
                    Ok(Flow::End) => {
                        w.ended = true;
                        ended = Some(i);
                    }
                    Ok(_) => waiting = Some(i),
                    Err((at, what)) => {
                        let inst = &self.code.code[at];
                        return Err(Fault::Instruction { kernel: k.name.clone(), group, wave: i, pc: inst.pc, text: inst.text.to_string(), what });
                    }
                }
            }
            let Some(at) = waiting else { return Ok(env.counts) };
            if let Some(gone) = ended.or_else(|| waves.iter().position(|w| w.ended)) {
                let inst = &self.code.code[waves[at].next - 1];
                let what = format!("waits for wave {gone}, which has ended");
                return Err(Fault::Instruction { kernel: k.name.clone(), group, wave: at, pc: inst.pc, text: inst.text.to_string(), what });
            }
            env.lds.barrier();
            if o.order == Order::Descending {
                order.reverse();
            }
        }
    }

    /// Runs a wave up to its next barrier or its end.
    fn until_barrier(&self, w: &mut Wave, env: &mut Env<'_>) -> Result<Flow, (usize, String)> {
        let code = &self.code.code;
        let mut left = self.options.max_instructions;
        loop {
            let at = w.next;
            let inst = code.get(at).ok_or_else(|| (at.saturating_sub(1), "runs beyond the code".to_owned()))?;
            let fail = |what: String| (at, what);
            if left == 0 {
                return Err(fail(format!("executed {} instructions without a barrier or an end", self.options.max_instructions)));
            }
            left -= 1;
            if self.options.waits {
                w.settled(&inst.uses).map_err(fail)?;
            }
            env.counts.instructions += 1;
            match inst.class {
                Class::Scalar => env.counts.scalar += 1,
                Class::Vector => env.counts.vector += 1,
                Class::Matrix => {
                    env.counts.vector += 1;
                    env.counts.matrix += 1;
                }
                Class::Memory => {}
            }
            // what lanes were not known to hold, they are not known to hold in the result
            let unknown = |w: &Wave| inst.flows.iter().map(|(_, from)| from.iter().fold(0, |m, &r| m | !w.known[r as usize])).collect::<Unknown>();
            let before = if inst.flows.iter().any(|(_, from)| from.iter().any(|&r| w.known[r as usize] & w.full != w.full)) {
                unknown(w)
            } else {
                Unknown::new()
            };
            match (inst.exec)(w, env).map_err(fail)? {
                Flow::Next => w.next = at + 1,
                Flow::Jump(to) => w.next = to,
                Flow::Call(to) => w.next = *self.code.index.get(&to).ok_or_else(|| fail(format!("goes to {to:#x}, which is no instruction")))?,
                Flow::Barrier => {
                    w.next = at + 1;
                    return Ok(Flow::Barrier);
                }
                Flow::End => return Ok(Flow::End),
            }
            for (lanes, (to, _)) in before.into_iter().zip(&inst.flows) {
                w.known[*to as usize] &= !(lanes & w.exec());
            }
        }
    }
}
